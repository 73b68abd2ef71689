import functools as __native_functools__

def __functools_module__():
    native = __native_functools__
    def remember(function):
        known = {}
        def call(*arguments, **named):
            key = (arguments, tuple(named.items()), tuple([repr(type(a)) for a in arguments if isinstance(a, (bool, float))]))
            if key not in known:
                known[key] = function(*arguments, **named)
            return known[key]
        return call
    def lru_cache(maxsize=128, typed=False):
        if maxsize is not None and not isinstance(maxsize, int):
            return remember(maxsize)
        if isinstance(maxsize, int) and maxsize < 1:
            return lambda function: function
        return remember
    def wraps(wrapped, *rest):
        return lambda function: function
    return __make_module__('functools', {
        'partial': native.partial, 'reduce': native.reduce, 'cache': remember, 'lru_cache': lru_cache, 'wraps': wraps,
    })

__functools__ = __functools_module__()
