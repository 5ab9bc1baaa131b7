"""From a plan to a flat list of array operations on one buffer."""

from __future__ import annotations

from lookalike.tables.beliefs import adjoint_operations
from lookalike.tables.cliques import clique_mask
from lookalike.tables.layout import Array, Layout, Operation, Storage
from lookalike.tables.plan import ContractionPlan, shared_masks, tree_scopes


def make_layout(plan: ContractionPlan, *, adjoint: bool = True) -> Layout:
    """Arrays and operations of a plan. Nothing is allocated yet: `cells` says how large the buffer would be.

    Args:
        plan: factors, tree and order.
        adjoint: whether marginals are wanted; without them only the forward sweep is laid out.
    """
    masks = tuple(clique_mask(plan.domain, leaf) for leaf in plan.leaves)
    count = len(masks)
    offsets = [0]
    for leaf in plan.leaves:
        offsets.append(offsets[-1] + plan.domain.cells(leaf))
    root_of = _roots(count, plan)
    roots = list(dict.fromkeys(root_of[:count]))
    component = {root: number for number, root in enumerate(roots)}
    scopes = tree_scopes(shared_masks(masks), plan.children)
    storage = Storage(plan, -(-(2 * offsets[-1] + len(roots)) // 8) * 8)
    forward: list[Operation] = []
    values: list[Array] = []
    for leaf, mask in enumerate(masks):
        full = Array(offsets[leaf], mask)
        if leaf in component:
            total = Array(2 * offsets[-1] + component[leaf], 0)
            forward.append(Operation(full, None, total))
            values.append(full)
        elif scopes[leaf] == mask:
            values.append(full)
        else:
            values.append(storage.allocate(scopes[leaf]))
            forward.append(Operation(full, None, values[leaf]))
    for j, (a, b) in enumerate(plan.children):
        node = count + j
        is_root = node in component
        values.append(Array(2 * offsets[-1] + component[node], 0) if is_root else storage.allocate(scopes[node]))
        forward.append(Operation(values[a], values[b], values[node]))
    marginals = [Array(offsets[-1] + offset, mask) for offset, mask in zip(offsets, masks, strict=False)]
    back = adjoint_operations(plan, masks, values, marginals, storage) if adjoint else []
    return Layout(
        plan=plan,
        leaf_masks=masks,
        leaf_offsets=tuple(offsets),
        component_of=tuple(component[root_of[leaf]] for leaf in range(count)),
        values=tuple(values),
        forward=tuple(forward),
        adjoint=tuple(back),
        cells=storage.end,
        axes={position: place for place, position in enumerate(plan.order)},
    )


def _roots(count: int, plan: ContractionPlan) -> list[int]:
    root_of = list(range(count + len(plan.children)))
    for j in range(len(plan.children) - 1, -1, -1):
        for child in plan.children[j]:
            root_of[child] = root_of[count + j]
    return root_of
