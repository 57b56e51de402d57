"""Calls of `torch.vmap`: the examples of a batch become sequences of one call."""

import torch


def _each(tensor, dim, size):
    """The tensor with examples in its first dimension; one without such a dimension is that of each example."""
    return tensor.movedim(dim, 0) if dim is not None else tensor.expand(size, *tensor.shape)


def _sequences(rows, sequences):
    """Rows or ids of `[examples, .., tokens, ..]` whose sequences are those of all examples."""
    examples, own = rows.shape[:2]
    return rows.expand(examples, sequences if own == 1 else own, *rows.shape[2:]).flatten(0, 1)


def folded(size, in_dims, x, cos, sin, ids):
    """Arguments of one rotation of all examples; `unfolded` takes its result apart."""
    x_dim, cos_dim, sin_dim, ids_dim = in_dims[:4]
    x = _each(x, x_dim, size)
    sequences = 1 if x.dim() == 4 else x.shape[1]
    x = x if x.dim() == 4 else x.flatten(0, 1)
    if cos_dim is None and sin_dim is None:
        if ids is not None and (ids_dim is not None or ids.dim() == 2):
            ids = _each(ids, ids_dim, size)
            ids = _sequences(ids.unsqueeze(1) if ids.dim() == 2 else ids, sequences)
        elif cos.dim() > 2 and cos.shape[0] > 1:
            cos, sin = (_sequences(_each(table, None, size), sequences) for table in (cos, sin))
        return x, cos, sin, ids
    cos, sin = _each(cos, cos_dim, size), _each(sin, sin_dim, size)
    if ids is not None:
        # An id outside of the table is refused, a negative one too.
        ids = _each(ids, ids_dim, size)
        every = ids.flatten(1).unsqueeze(-1).expand(-1, -1, cos.shape[-1])
        cos, sin = (table.gather(1, every).unflatten(1, ids.shape[1:]) for table in (cos, sin))
    if cos.dim() == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return x, _sequences(cos, sequences), _sequences(sin, sequences), None


def unfolded(y, size, rank):
    """The result for each example, in front; `rank` is that of one example."""
    return y if rank == 3 else y.unflatten(0, (size, -1))


def of_one_example(tensor):
    """The memory of one example, without what the transformations of torch.func have put around it."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        dim = functorch.maybe_get_bdim(tensor)
        tensor = functorch.get_unwrapped(tensor)
        if dim >= 0:
            tensor = tensor.select(dim, 0)
    return tensor
