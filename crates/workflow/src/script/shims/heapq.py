def __heapq_module__():
    def up(heap, start, pos):
        new = heap[pos]
        while pos > start:
            parent = (pos - 1) >> 1
            if new < heap[parent]:
                heap[pos] = heap[parent]
                pos = parent
                continue
            break
        heap[pos] = new
    def down(heap, pos):
        end = len(heap)
        start = pos
        new = heap[pos]
        child = 2 * pos + 1
        while child < end:
            right = child + 1
            if right < end and not heap[child] < heap[right]:
                child = right
            heap[pos] = heap[child]
            pos = child
            child = 2 * pos + 1
        heap[pos] = new
        up(heap, start, pos)
    def heappush(heap, item):
        heap.append(item)
        up(heap, 0, len(heap) - 1)
    def heappop(heap):
        last = heap.pop()
        if heap:
            first = heap[0]
            heap[0] = last
            down(heap, 0)
            return first
        return last
    def heapreplace(heap, item):
        first = heap[0]
        heap[0] = item
        down(heap, 0)
        return first
    def heappushpop(heap, item):
        if heap and heap[0] < item:
            first = heap[0]
            heap[0] = item
            down(heap, 0)
            return first
        return item
    def heapify(heap):
        for i in range(len(heap) // 2 - 1, -1, -1):
            down(heap, i)
    def nlargest(n, iterable, key=None):
        return sorted(iterable, key=key, reverse=True)[:max(0, n)]
    def nsmallest(n, iterable, key=None):
        return sorted(iterable, key=key)[:max(0, n)]
    return __make_module__('heapq', {
        'heappush': heappush, 'heappop': heappop, 'heapreplace': heapreplace, 'heappushpop': heappushpop,
        'heapify': heapify, 'nlargest': nlargest, 'nsmallest': nsmallest,
    })

__heapq__ = __heapq_module__()
