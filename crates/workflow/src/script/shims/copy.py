def __copy_module__():
    def same(value):
        return value is None or isinstance(value, (str, int, float, bytes, range))
    def named(value):
        return repr(type(value))
    def copy(x):
        if same(x) or isinstance(x, (tuple, frozenset)):
            return x
        if isinstance(x, (list, dict, set)):
            return x.copy()
        if named(x).startswith("<class 'function") or named(x).startswith("<class 'datetime") or named(x).startswith("<class 'type") or named(x).startswith("<class 'builtin_function"):
            return x
        raise NotImplementedError('embedded Python: `copy.copy` of ' + named(x))
    def deepcopy(x, memo=None):
        if memo is None:
            memo = {}
        if same(x):
            return x
        if id(x) in memo:
            return memo[id(x)][1]
        kind = named(x)
        if kind == "<class 'dict'>":
            made = {}
            memo[id(x)] = (x, made)
            for key, value in x.items():
                made[deepcopy(key, memo)] = deepcopy(value, memo)
            return made
        if kind == "<class 'list'>":
            made = []
            memo[id(x)] = (x, made)
            for value in x:
                made.append(deepcopy(value, memo))
            return made
        if kind == "<class 'tuple'>":
            made = tuple([deepcopy(value, memo) for value in x])
            memo[id(x)] = (x, made)
            return made
        if kind == "<class 'set'>":
            made = set([deepcopy(value, memo) for value in x])
            memo[id(x)] = (x, made)
            return made
        if kind == "<class 'frozenset'>":
            return x
        if kind.startswith("<class 'function") or kind.startswith("<class 'datetime") or kind.startswith("<class 'type") or kind.startswith("<class 'builtin_function"):
            return x
        if isinstance(x, dict) or isinstance(x, tuple) or isinstance(x, list):
            made = x.copy() if isinstance(x, dict) else None
            if made is not None:
                memo[id(x)] = (x, made)
                for key, value in x.items():
                    made[key] = deepcopy(value, memo)
                return made
        raise NotImplementedError('embedded Python: `copy.deepcopy` of ' + kind)
    return __make_module__('copy', {'copy': copy, 'deepcopy': deepcopy})

__copy__ = __copy_module__()
