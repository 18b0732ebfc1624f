"""The timer heap.  See heap.pxd for its shape; all functions are free of Python.

Costs, n nodes: push O(1) on average for random due times and O(log n) at
worst, pop and replace_root O(log n), restore O(n), sort O(n log n).
`heap_reserve` is the only function that can fail; the others rely on it.
"""

from libc.stdint cimport INT64_MIN, uintptr_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy

from .memory cimport allocate, allocate_large
from .platform cimport LARGE, LARGE_PAGE, large_free

cdef enum:
    CACHE_LINE = 64
    LEAST_CAPACITY = 60              # with the alignment just under 1 kB


cdef void free_memory(void *memory, size_t bytes) noexcept nogil:
    if bytes < LARGE:
        free(memory)
    else:
        large_free(memory, bytes)


cdef void heap_free(Heap *heap) noexcept nogil:
    free_memory(heap.memory, heap.bytes)
    heap.memory = NULL
    heap.nodes = NULL
    heap.size = heap.capacity = heap.bytes = 0


cdef int heap_reserve(Heap *heap, size_t capacity) noexcept nogil:
    """Makes room for `capacity` nodes in all; 0, or -1 with nothing changed if there is no memory."""
    cdef size_t bytes
    cdef void *memory
    cdef Node *nodes
    if capacity <= heap.capacity:
        return 0
    if capacity < 2 * heap.capacity:
        capacity = 2 * heap.capacity
    bytes = max(capacity, <size_t>LEAST_CAPACITY) * sizeof(Node) + CACHE_LINE
    if bytes >= LARGE:
        bytes = (bytes + LARGE_PAGE - 1) // LARGE_PAGE * LARGE_PAGE
    memory = allocate(bytes) if bytes < LARGE else allocate_large(bytes)
    if memory == NULL:
        return -1
    # nodes[1] begins a cache line, as do all groups of four children after it.
    nodes = <Node *>(<char *>memory + (2 * CACHE_LINE - sizeof(Node) - <uintptr_t>memory % CACHE_LINE) % CACHE_LINE)
    if heap.size:
        memcpy(nodes, heap.nodes, heap.size * sizeof(Node))
    free_memory(heap.memory, heap.bytes)
    heap.memory = memory
    heap.bytes = bytes
    heap.nodes = nodes
    heap.capacity = (bytes - CACHE_LINE) // sizeof(Node)
    return 0


cdef inline size_t least_child(const Node *nodes, size_t first) noexcept nogil:
    cdef size_t left = first + node_before(&nodes[first + 1], &nodes[first])
    cdef size_t right = first + 2 + node_before(&nodes[first + 3], &nodes[first + 2])
    return right if node_before(&nodes[right], &nodes[left]) else left


cdef inline void sift_down(Node *nodes, size_t size, size_t top, Node node) noexcept nogil:
    """Fills the hole at `top` of a heap of `size` nodes with `node`.

    Bottom-up (Wegener's variant): the hole sinks to a leaf along the least children, and `node` rises from there.  What
    is put in at the root mostly belongs near the bottom, so the comparison with it at each level is saved, and the
    only branch left that a predictor could miss is the last one.
    """
    cdef size_t hole = top
    cdef size_t child = 4 * hole + 1
    cdef size_t least, i
    while child + 4 <= size:
        # The grandchildren are four cache lines in a row: ask for them while the children are compared.
        prefetch(&nodes[4 * child + 1])
        prefetch(&nodes[4 * child + 5])
        prefetch(&nodes[4 * child + 9])
        prefetch(&nodes[4 * child + 13])
        least = least_child(nodes, child)
        nodes[hole] = nodes[least]
        hole = least
        child = 4 * hole + 1
    if child < size:
        least = child
        for i in range(child + 1, size):
            if node_before(&nodes[i], &nodes[least]):
                least = i
        nodes[hole] = nodes[least]
        hole = least
    while hole > top and node_before(&node, &nodes[(hole - 1) >> 2]):
        nodes[hole] = nodes[(hole - 1) >> 2]
        hole = (hole - 1) >> 2
    nodes[hole] = node


cdef void heap_pop(Heap *heap) noexcept nogil:
    """Drops the root of a heap that is not empty."""
    heap.size -= 1
    if heap.size:
        sift_down(heap.nodes, heap.size, 0, heap.nodes[heap.size])


cdef void heap_replace_root(Heap *heap, int64_t when, uint64_t tie) noexcept nogil:
    cdef Node node
    node.when = when
    node.tie = tie
    sift_down(heap.nodes, heap.size, 0, node)


cdef void heap_restore(Heap *heap) noexcept nogil:
    """Orders nodes that are in any order (Floyd's construction)."""
    cdef size_t i
    if heap.size > 1:
        i = (heap.size - 2) // 4 + 1
        while i:
            i -= 1
            sift_down(heap.nodes, heap.size, i, heap.nodes[i])


cdef int compare_nodes(const void *a, const void *b) noexcept nogil:
    return node_before(<const Node *>b, <const Node *>a) - node_before(<const Node *>a, <const Node *>b)


cdef void heap_sort(Heap *heap) noexcept nogil:
    """Sorts all nodes; a sorted array is a heap."""
    qsort(heap.nodes, heap.size, sizeof(Node), compare_nodes)


cdef bint heap_ordered(const Heap *heap) noexcept nogil:
    cdef size_t i
    for i in range(1, heap.size):
        if node_before(&heap.nodes[i], &heap.nodes[(i - 1) >> 2]):
            return False
    return True


cdef class TimerHeap:
    """The heap by itself, for tests and benchmarks.

    Not safe for use by several threads at once: the engine guards its own heap with its mutex.
    """

    cdef Heap heap
    cdef uint64_t order

    def __dealloc__(self):
        heap_free(&self.heap)

    def __len__(self):
        return self.heap.size

    def push(self, int64_t when_ns, uint32_t slot):
        """Adds `(when_ns, slot)` and returns its tie word, order << 24 | slot; O(log n).

        Raises ValueError for a slot that does not fit 24 bits.
        """
        if slot >= SLOT_LIMIT:
            raise ValueError(f"slot must be below {SLOT_LIMIT}, got {slot}")
        if heap_reserve(&self.heap, self.heap.size + 1) < 0:
            raise MemoryError
        self.order += 1
        cdef uint64_t tie = self.order << SLOT_BITS | slot
        heap_push(&self.heap, when_ns, tie)
        return tie

    def peek(self):
        """The least `(when_ns, slot)`, left in place; IndexError when empty."""
        if self.heap.size == 0:
            raise IndexError("peek at an empty heap")
        return self.heap.nodes[0].when, self.heap.nodes[0].tie & SLOT_MASK

    def pop(self):
        """Removes and returns the least `(when_ns, slot)`; IndexError when empty."""
        least = self.peek()
        heap_pop(&self.heap)
        return least

    def drain(self):
        """Pops everything, in C, and returns how many nodes there were; AssertionError if one was out of order."""
        cdef size_t popped = 0
        cdef int64_t last_when = INT64_MIN
        cdef uint64_t last_tie = 0
        cdef bint ordered = True
        with nogil:
            while self.heap.size:
                ordered &= (self.heap.nodes[0].when > last_when
                            or (self.heap.nodes[0].when == last_when and self.heap.nodes[0].tie > last_tie))
                last_when = self.heap.nodes[0].when
                last_tie = self.heap.nodes[0].tie
                heap_pop(&self.heap)
                popped += 1
        if not ordered:
            raise AssertionError("the heap gave nodes out of order")
        return popped

    def _check(self):
        """Raises AssertionError unless every node is at or after its parent; O(n)."""
        if not heap_ordered(&self.heap):
            raise AssertionError("a node is before its parent")
