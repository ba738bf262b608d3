"""Stands in for SGLang's compiled CPU kernels: the one a dense model needs, in torch; every other name raises."""

__version__ = "0.4.10"


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start, end, out_cache_loc, pool_len):
    """Writes each request's new cache slots into its row of the request-to-token table."""
    taken = 0
    for row, first, last in zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=False):
        count = int(last) - int(first)
        req_to_token[row, int(first) : int(last)] = out_cache_loc[taken : taken + count].to(req_to_token.dtype)
        taken += count


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*args, **kwargs):
        raise NotImplementedError(f"the stand-in for sgl_kernel has no {name}")

    return refuse
