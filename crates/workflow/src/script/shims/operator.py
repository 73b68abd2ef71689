def __operator_module__():
    def itemgetter(*keys):
        if len(keys) == 1:
            key = keys[0]
            return lambda x: x[key]
        return lambda x: tuple([x[key] for key in keys])
    def attrgetter(*names):
        def one(x, name):
            for part in name.split('.'):
                x = getattr(x, part)
            return x
        if len(names) == 1:
            return lambda x: one(x, names[0])
        return lambda x: tuple([one(x, name) for name in names])
    return __make_module__('operator', {
        'itemgetter': itemgetter, 'attrgetter': attrgetter,
        'add': lambda a, b: a + b, 'sub': lambda a, b: a - b, 'mul': lambda a, b: a * b,
        'floordiv': lambda a, b: a // b, 'neg': lambda a: -a, 'not_': lambda a: not a,
        'eq': lambda a, b: a == b, 'ne': lambda a, b: a != b, 'lt': lambda a, b: a < b, 'le': lambda a, b: a <= b,
        'gt': lambda a, b: a > b, 'ge': lambda a, b: a >= b, 'contains': lambda a, b: b in a,
        'getitem': lambda a, b: a[b], 'and_': lambda a, b: a & b, 'xor': lambda a, b: a ^ b,
        'is_': lambda a, b: a is b, 'is_not': lambda a, b: a is not b, 'truth': lambda a: True if a else False,
    })

__operator__ = __operator_module__()
