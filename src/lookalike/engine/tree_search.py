"""The loops of the planner, written so that they run as plain Python or compiled, with the same result.

Conventions. A set of variables is `words` integers of 56 bits each, so that sums and shifts stay in 64 bits; the sets
of all nodes lie in one flat sequence. Leaves are nodes 0..leaves-1, inner nodes follow; node v has the children
tree[2v] and tree[2v + 1]. Sequences are lists (interpreted) or arrays (compiled). Random numbers come from a small
multiplicative generator, logarithms from a table: nothing depends on a library's version, so a seed gives the same
plan everywhere.
"""

from __future__ import annotations

BITS = 56
BYTES = 7
DRAWS = 1024

# Nanoseconds of a node: once, per multiply-add, per cell of its arrays; fitted to the measurements behind prices.json.
# They are defined in this file because numba's cache on disk is renewed when this file changes, not when others do.
STEP_NS, MULTIPLY_ADD_NS, CELL_NS = 195.0, 0.30, 0.43


def next_random(state):
    """The next state of the generator, an integer in 1..2147483646."""
    return state * 48271 % 2147483647


def set_cells(sets, at, words, table):
    """Product of the sizes of the variables in the set that starts at `at`."""
    cells = 1.0
    for w in range(words):
        part = sets[at + w]
        base = w * BYTES * 256
        while part:
            cells *= table[base + (part & 255)]
            part >>= 8
            base += 256
    return cells


def union_cells(sets, one, two, words, table):
    """Product of the sizes of the variables in the union of two sets."""
    cells = 1.0
    for w in range(words):
        part = sets[one + w] | sets[two + w]
        base = w * BYTES * 256
        while part:
            cells *= table[base + (part & 255)]
            part >>= 8
            base += 256
    return cells


def node_ns(union, a, b, c):
    """Predicted nanoseconds of the three contractions of a node, from the cells of its loops and of its arrays."""
    return STEP_NS + MULTIPLY_ADD_NS * union + CELL_NS * (a + b + c)


def fill_scopes(leaves, nodes, words, tree, below, above, scope):
    """Set `scope` of every node to the variables both in leaves below it and in others; the last node is the root.

    `below` holds the sets of the leaves and receives those of inner nodes; children come before their parents.
    """
    for v in range(leaves, nodes):
        for w in range(words):
            below[v * words + w] = below[tree[2 * v] * words + w] | below[tree[2 * v + 1] * words + w]
    for w in range(words):
        above[(nodes - 1) * words + w] = 0
    for v in range(nodes - 1, leaves - 1, -1):
        for w in range(words):
            up = above[v * words + w]
            above[tree[2 * v] * words + w] = up | below[tree[2 * v + 1] * words + w]
            above[tree[2 * v + 1] * words + w] = up | below[tree[2 * v] * words + w]
    for i in range(nodes * words):
        scope[i] = below[i] & above[i]


def tree_cost(leaves, words, tree, scope, cells, ns, table):
    """Predicted nanoseconds of a tree with these scopes; fills the cells and the time of every node."""
    for v in range(2 * leaves - 1):
        cells[v] = set_cells(scope, v * words, words, table)
    total = 0.0
    for v in range(leaves, 2 * leaves - 1):
        a, b = tree[2 * v], tree[2 * v + 1]
        ns[v] = node_ns(union_cells(scope, a * words, b * words, words, table), cells[a], cells[b], cells[v])
        total += ns[v]
    return total


def pair_score(sets, i, j, words, twice, table, cells, alpha, noise, draw):
    """Greedy score of merging two nodes: cells of the product less alpha times those of the two, with random noise."""
    product = 1.0
    shared = 0
    for w in range(words):
        a, b = sets[i * words + w], sets[j * words + w]
        shared |= a & b
        part = (a | b) & ~(a & b & twice[w])
        base = w * BYTES * 256
        while part:
            product *= table[base + (part & 255)]
            part >>= 8
            base += 256
    score = product - alpha * (cells[i] + cells[j])
    score += noise * abs(score) * draw
    if shared == 0:
        score += 1e300
    return score


def greedy(leaves, words, sets, twice, uses, table, cells, tree, alive, score, partner, alpha, noise, state, draws):
    """Build a tree by merging the best pair again and again; return the generator's state.

    `sets` starts with the leaves' sets and receives those of inner nodes. `uses` counts in how many nodes without a
    parent each variable occurs, `twice` holds the variables that occur in exactly two.
    """
    for i in range(leaves):
        alive[i] = 1
        cells[i] = set_cells(sets, i * words, words, table)
    for i in range(leaves):
        score[i] = 1e307
        for j in range(i + 1, leaves):
            state = next_random(state)
            s = pair_score(sets, i, j, words, twice, table, cells, alpha, noise, draws[state % DRAWS])
            if s < score[i]:
                score[i] = s
                partner[i] = j
    for v in range(leaves, 2 * leaves - 1):
        best, i = 2e307, -1
        for k in range(v):
            if alive[k] and score[k] < best:
                best, i = score[k], k
        j = partner[i]
        tree[2 * v], tree[2 * v + 1] = i, j
        alive[i], alive[j], alive[v] = 0, 0, 1
        merge_sets(sets, i, j, v, words, twice, uses)
        cells[v] = set_cells(sets, v * words, words, table)
        score[v] = 1e307
        for k in range(v):
            if not alive[k]:
                continue
            state = next_random(state)
            s = pair_score(sets, k, v, words, twice, table, cells, alpha, noise, draws[state % DRAWS])
            if partner[k] == i or partner[k] == j:
                score[k] = s
                partner[k] = v
                for m in range(k + 1, v):
                    if alive[m]:
                        state = next_random(state)
                        s = pair_score(sets, k, m, words, twice, table, cells, alpha, noise, draws[state % DRAWS])
                        if s < score[k]:
                            score[k] = s
                            partner[k] = m
            elif s < score[k]:
                score[k] = s
                partner[k] = v
    return state


def merge_sets(sets, i, j, v, words, twice, uses):
    """Write the product's set at node v and count down the uses of the variables that both sets contain."""
    for w in range(words):
        a, b = sets[i * words + w], sets[j * words + w]
        sets[v * words + w] = (a | b) & ~(a & b & twice[w])
        common = a & b
        bit = 0
        while common:
            if common & 1:
                at = w * BITS + bit
                uses[at] -= 1
                if uses[at] == 2:
                    twice[w] |= 1 << bit
                elif uses[at] == 1:
                    twice[w] &= ~(1 << bit)
            common >>= 1
            bit += 1


def anneal(leaves, words, tree, scope, cells, ns, table, total, state, moves, hot, decay, draws, inner, best_tree):
    """Simulated annealing by rotations ((x, y), b) -> ((x, b), y): leave the best tree in `best_tree`, return its cost.

    Only two nodes change in a rotation. The new inner scope is (x | b) & (y | v) with v the node above, as a variable
    of a subtree can also occur only in the sibling or above. A rise by the fraction f of the cost is accepted with a
    probability of about exp(-log(1 + f) / temperature).
    """
    best, temperature = total, hot
    copy_tree(leaves, tree, best_tree)
    for _ in range(moves):
        temperature *= decay
        state = next_random(state)
        v = leaves + (state >> 2) % (leaves - 1)
        side, turn = state & 1, (state >> 1) & 1
        a, b = tree[2 * v + side], tree[2 * v + 1 - side]
        if a < leaves:
            continue
        x, y = tree[2 * a + turn], tree[2 * a + 1 - turn]
        union_a, union_v, cells_a = 1.0, 1.0, 1.0
        for w in range(words):
            sy = scope[y * words + w]
            one = scope[x * words + w] | scope[b * words + w]
            mid = one & (sy | scope[v * words + w])
            two = mid | sy
            inner[w] = mid
            base = w * BYTES * 256
            while one | two:
                union_a *= table[base + (one & 255)]
                union_v *= table[base + (two & 255)]
                cells_a *= table[base + (mid & 255)]
                one >>= 8
                two >>= 8
                mid >>= 8
                base += 256
        ns_a = node_ns(union_a, cells[x], cells[b], cells_a)
        ns_v = node_ns(union_v, cells_a, cells[y], cells[v])
        change = ns_a + ns_v - ns[a] - ns[v]
        if change > 0.0:
            state = next_random(state)
            allowed = temperature * draws[state % DRAWS]
            if change >= total * allowed * (1.0 + 0.5 * allowed):
                continue
        tree[2 * a], tree[2 * a + 1] = x, b
        tree[2 * v], tree[2 * v + 1] = a, y
        for w in range(words):
            scope[a * words + w] = inner[w]
        cells[a], ns[a], ns[v] = cells_a, ns_a, ns_v
        total += change
        if total < best * 0.9999999:
            best = total
            copy_tree(leaves, tree, best_tree)
    return best


def copy_tree(leaves, source, target):
    for i in range(2 * leaves, 4 * leaves - 2):
        target[i] = source[i]


def best_insertion(leaves, words, tree, parent, below, above, table, path):
    """Return the node to which a new leaf, number leaves-1, is best joined, and the cost of the whole tree then.

    `tree`, `parent`, `below` and `above` describe the tree without the new leaf: leaves 0..leaves-2 and inner nodes
    leaves..2*leaves-3, the last of which is the root. `path` is scratch space for one mark per node.
    """
    best, found = 1e308, -1
    for at in range(2 * leaves - 2):
        if at == leaves - 1:
            continue
        for v in range(2 * leaves):
            path[v] = 0
        v = at
        while parent[v] >= 0:
            v = parent[v]
            path[v] = 1
        cost = insertion_cost(leaves, words, tree, below, above, at, table, path)
        if cost < best:
            best, found = cost, at
    return found, best


def insertion_cost(leaves, words, tree, below, above, at, table, path):
    """Predicted nanoseconds of a tree after the last leaf is joined to node `at`; see `best_insertion`."""
    new = (leaves - 1) * words
    total = 0.0
    for v in range(leaves - 1, 2 * leaves - 2):
        fresh = v == leaves - 1
        a, b = (at, v) if fresh else (tree[2 * v], tree[2 * v + 1])
        union, cells_a, cells_b, cells_v = 1.0, 1.0, 1.0, 1.0
        for w in range(words):
            leaf = below[new + w]
            if fresh:
                low, high = below[at * words + w], above[at * words + w]
                sa, sb, sv = low & (high | leaf), leaf & (low | high), (low | leaf) & high
            else:
                sa = moved_scope(below[a * words + w], above[a * words + w], leaf, path[a] or a == at)
                sb = moved_scope(below[b * words + w], above[b * words + w], leaf, path[b] or b == at)
                sv = moved_scope(below[v * words + w], above[v * words + w], leaf, path[v])
            base = w * BYTES * 256
            while sa | sb:
                union *= table[base + ((sa | sb) & 255)]
                cells_a *= table[base + (sa & 255)]
                cells_b *= table[base + (sb & 255)]
                cells_v *= table[base + (sv & 255)]
                sa >>= 8
                sb >>= 8
                sv >>= 8
                base += 256
        total += node_ns(union, cells_a, cells_b, cells_v)
    return total


def moved_scope(below, above, leaf, holds_leaf):
    """Scope of a node once a new leaf is below it (holds_leaf) or elsewhere."""
    if holds_leaf:
        return (below | leaf) & above
    return below & (above | leaf)


def insert_leaf(leaves, tree, at, parent_of_at):
    """Join leaf leaves-1 to node `at` of a tree numbered as in `best_insertion`; children stay before parents."""
    place = parent_of_at if parent_of_at >= 0 else 2 * leaves - 2
    for v in range(2 * leaves - 3, leaves - 1, -1):
        target = v + 1 if v >= place else v
        for side in range(2):
            child = tree[2 * v + side]
            if child == at and v == parent_of_at:
                child = place
            elif child >= place:
                child += 1
            tree[2 * target + side] = child
    tree[2 * place], tree[2 * place + 1] = at, leaves - 1
