import itertools as __native_itertools__

def __itertools_module__():
    native = __native_itertools__
    def product(*sources, repeat=1):
        pools = [tuple(source) for source in sources] * repeat
        found = [()]
        for pool in pools:
            found = [row + (item,) for row in found for item in pool]
        return iter(found)
    def chosen(n, r, again, ordered):
        rows = [()]
        for _ in range(r):
            if ordered:
                rows = [row + (i,) for row in rows for i in range(n) if i not in row]
            else:
                rows = [row + (i,) for row in rows for i in range((row[-1] + (0 if again else 1)) if row else 0, n)]
        return rows
    def permutations(iterable, r=None):
        pool = tuple(iterable)
        rows = chosen(len(pool), len(pool) if r is None else r, False, True)
        return iter([tuple([pool[i] for i in row]) for row in rows])
    def combinations(iterable, r):
        pool = tuple(iterable)
        return iter([tuple([pool[i] for i in row]) for row in chosen(len(pool), r, False, False)])
    def combinations_with_replacement(iterable, r):
        pool = tuple(iterable)
        return iter([tuple([pool[i] for i in row]) for row in chosen(len(pool), r, True, False)])
    missing = []
    class Group:
        def __init__(self, owner, mark, turn):
            self.__owner = owner
            self.__mark = mark
            self.__turn = turn
        def __iter__(self):
            return self
        def __next__(self):
            owner = self.__owner
            # The next group invalidates this one.
            if owner.turn != self.__turn or owner.item is missing or owner.mark != self.__mark:
                raise StopIteration
            item = owner.item
            owner.advance()
            return item
    class groupby:
        def __init__(self, iterable, key=None):
            self.__source = iter(iterable)
            self.__key = key
            self.turn = 0
            self.advance()
            self.__target = missing
        def advance(self):
            self.item = next(self.__source, missing)
            if self.item is not missing:
                self.mark = self.item if self.__key is None else self.__key(self.item)
        def __iter__(self):
            return self
        def __next__(self):
            self.turn += 1
            while self.item is not missing and self.__target is not missing and self.mark == self.__target:
                self.advance()
            if self.item is missing:
                raise StopIteration
            self.__target = self.mark
            return self.mark, Group(self, self.mark, self.turn)
    return __make_module__('itertools', {
        'product': product, 'permutations': permutations, 'combinations': combinations,
        'combinations_with_replacement': combinations_with_replacement, 'groupby': groupby,
        'accumulate': native.accumulate, 'batched': native.batched, 'chain': native.chain, 'compress': native.compress,
        'count': native.count, 'cycle': native.cycle, 'dropwhile': native.dropwhile, 'filterfalse': native.filterfalse,
        'islice': native.islice, 'pairwise': native.pairwise, 'repeat': native.repeat, 'starmap': native.starmap,
        'takewhile': native.takewhile, 'zip_longest': native.zip_longest,
    })

__itertools__ = __itertools_module__()
