import functools as __native_functools__

def __functools_module__():
    native = __native_functools__
    def remember(function, typed=False):
        known = {}
        def call(*arguments, **named):
            # CPython keeps a single int or str apart from equal arguments of other types.
            single = not named and len(arguments) == 1 and type(arguments[0]) in (int, str)
            kinds = [repr(type(a)) for a in arguments] if typed else []
            kinds = kinds + [repr(type(a)) for a in named.values()] if typed else kinds
            key = (single, arguments, tuple(named.items()), tuple(kinds))
            if key not in known:
                known[key] = function(*arguments, **named)
            return known[key]
        return call
    def lru_cache(maxsize=128, typed=False):
        if maxsize is not None and not isinstance(maxsize, int):
            return remember(maxsize)
        if isinstance(maxsize, int) and maxsize < 1:
            return lambda function: function
        return lambda function: remember(function, typed)
    def wraps(wrapped, *rest):
        return lambda function: function
    return __make_module__('functools', {
        'partial': native.partial, 'reduce': native.reduce, 'cache': lambda function: remember(function), 'lru_cache': lru_cache, 'wraps': wraps,
    })

__functools__ = __functools_module__()
