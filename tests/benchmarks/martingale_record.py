"""Records of martingale's own kind, written by its own ledger: a real one repeated, and one of longer replies."""

import subprocess
from pathlib import Path

# Both are run by the interpreter that has martingale. Waiting for the disk is left out: it changes nothing in the file.
_REPEATED = """
import sys
from pathlib import Path
from martingale.record.store import TokenLedger
from martingale.record.tokens import ScoreRecord, build_sequence

source, target = (TokenLedger(Path(name), readonly=n == 0) for n, name in enumerate(sys.argv[1:3]))
target._con.execute("PRAGMA synchronous=OFF")
for revision in source.all_revisions():
    target.publish_revision(revision)
sequences = list(source.all_sequences())
scores_of = {one.digest: source.scores_for(one.digest) for one in sequences}
repeats = -(-int(sys.argv[3]) // sum(map(len, scores_of.values())))
for repeat in range(repeats):
    for one in sequences:
        actor = one.actor_id + 1_000_000 * repeat
        steps = [(t.revision_digest, t.token_id, t.logprob_bits, t.topk) for t in one.tokens]
        again = build_sequence(
            actor, one.sequence_index, f"{one.sequence_id}-{repeat}", one.prompt_ids, steps,
            prev_sequence_digest=target.last_sequence_digest(actor), reward_bits=one.reward_bits,
        )
        target.append_sequence(again)
        scores, before = [], again.digest
        for score in scores_of[one.digest]:
            made = ScoreRecord(again.digest, score.position, score.train_revision_digest, score.logprob_bits, before)
            scores.append(made)
            before = made.digest
        target.append_scores(scores)
target.close()
"""
_LONG = """
import hashlib, random, sys
from pathlib import Path
from martingale.record import Recorder, SamplerConfig

folder, tokens = Path(sys.argv[1]), int(sys.argv[2])
draw = random.Random(7)
sampler = SamplerConfig(
    temperature=1.0, top_p=1.0, max_tokens=512, logprobs_mode="processed_logprobs", dtype="bfloat16",
    engine="benchmark", engine_version="0", seed_policy="7", logprobs_source="engine_sampling",
    temperature_applied=True,
)
recorder = Recorder(folder)
recorder.ledger._con.execute("PRAGMA synchronous=OFF")
revisions = [
    recorder.publish_revision(hashlib.blake2b(b"%d" % step, digest_size=32).hexdigest(), b"", sampler, step=step)
    for step in range(8)
]
number = done = 0
while done < tokens:
    sampled_by = min(8 * done // tokens, 7)
    scored_by = min(sampled_by + number % 3, 7)
    prompt = [draw.randrange(150_000) for _ in range(draw.randrange(45, 400))]
    mu = [0.0 if draw.random() < 0.35 else -draw.expovariate(1.6) for _ in range(draw.randrange(40, 320))]
    with recorder.sequence(actor_id=number % 4, sequence_id=f"prompt-{number}", prompt_ids=prompt) as sequence:
        for logprob in mu:
            sequence.token(revisions[sampled_by].digest, draw.randrange(150_000), logprob)
        sequence.reward(float(draw.random() < 0.5))
    scored = [min(logprob + draw.gauss(0, 0.004), 0.0) for logprob in mu]
    recorder.score(sequence.record.digest, revisions[scored_by].digest, scored)
    number, done = number + 1, done + len(mu)
recorder.ledger.close()
"""


def repeated(python: Path, source: Path, folder: Path, tokens: int) -> None:
    """A folder with the tokens.db `source` over and over, until it has that many scored tokens."""
    folder.mkdir()
    subprocess.run([python, "-c", _REPEATED, source, folder / "tokens.db", str(tokens)], check=True)


def of_long_replies(python: Path, folder: Path, tokens: int) -> None:
    """A folder with a tokens.db of replies of 40 to 320 tokens, each scored once, 0 to 2 steps later."""
    subprocess.run([python, "-c", _LONG, folder, str(tokens)], check=True)
