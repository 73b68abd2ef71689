def __bisect_module__():
    def bisect_right(a, x, lo=0, hi=None, *, key=None):
        if lo < 0:
            raise ValueError('lo must be non-negative')
        if hi is None:
            hi = len(a)
        while lo < hi:
            mid = (lo + hi) // 2
            if x < (a[mid] if key is None else key(a[mid])):
                hi = mid
            else:
                lo = mid + 1
        return lo
    def bisect_left(a, x, lo=0, hi=None, *, key=None):
        if lo < 0:
            raise ValueError('lo must be non-negative')
        if hi is None:
            hi = len(a)
        while lo < hi:
            mid = (lo + hi) // 2
            if (a[mid] if key is None else key(a[mid])) < x:
                lo = mid + 1
            else:
                hi = mid
        return lo
    def insort_right(a, x, lo=0, hi=None, *, key=None):
        a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)
    def insort_left(a, x, lo=0, hi=None, *, key=None):
        a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)
    return __make_module__('bisect', {
        'bisect': bisect_right, 'bisect_right': bisect_right, 'bisect_left': bisect_left, 'insort': insort_right,
        'insort_right': insort_right, 'insort_left': insort_left,
    })

__bisect__ = __bisect_module__()
