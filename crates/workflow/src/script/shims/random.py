# The Mersenne Twister, seeded and read as in CPython.
def __random_module__():
    import math
    MASK = 0xffffffff
    NV = 4 * math.exp(-0.5) / math.sqrt(2.0)
    LOG4 = math.log(4.0)

    class Random:
        def __init__(self, x=None):
            self.__state = []
            self.__at = 624
            self.__gauss = None
            self.seed(x)

        def seed(self, a=None, version=2):
            if a is None:
                key = __random_number__()
            elif isinstance(a, int):
                key = abs(int(a))
            else:
                raise NotImplementedError('embedded Python: a seed of `random` that is not an integer')
            keys = []
            while key:
                keys.append(key & MASK)
                key >>= 32
            keys = keys or [0]
            state = [19650218]
            last = 19650218
            for i in range(1, 624):
                last = (1812433253 * (last ^ (last >> 30)) + i) & MASK
                state.append(last)
            i, j = 1, 0
            size = len(keys)
            for _ in range(max(624, size)):
                last = state[i - 1]
                state[i] = ((state[i] ^ ((last ^ (last >> 30)) * 1664525)) + keys[j] + j) & MASK
                i += 1
                j += 1
                if i >= 624:
                    state[0] = state[623]
                    i = 1
                if j >= size:
                    j = 0
            for _ in range(623):
                last = state[i - 1]
                state[i] = ((state[i] ^ ((last ^ (last >> 30)) * 1566083941)) - i) & MASK
                i += 1
                if i >= 624:
                    state[0] = state[623]
                    i = 1
            state[0] = 0x80000000
            self.__state = state
            self.__at = 624
            self.__gauss = None

        def word(self):
            if self.__at >= 624:
                state = self.__state
                for k in range(624):
                    y = (state[k] & 0x80000000) | (state[(k + 1) % 624] & 0x7fffffff)
                    state[k] = state[(k + 397) % 624] ^ (y >> 1) ^ (0x9908b0df if y & 1 else 0)
                self.__at = 0
            y = self.__state[self.__at]
            self.__at += 1
            y ^= y >> 11
            y ^= (y << 7) & 0x9d2c5680
            y ^= (y << 15) & 0xefc60000
            return y ^ (y >> 18)

        def random(self):
            a = self.word() >> 5
            b = self.word() >> 6
            return (a * 67108864.0 + b) * (1.0 / 9007199254740992.0)

        def getrandbits(self, k):
            if k < 0:
                raise ValueError('number of bits must be non-negative')
            value = shift = 0
            while k > 0:
                word = self.word()
                if k < 32:
                    word >>= 32 - k
                value |= word << shift
                shift += 32
                k -= 32
            return value

        def below(self, n):
            k = len(bin(n)) - 2 if n else 0
            r = self.getrandbits(k)
            while r >= n:
                r = self.getrandbits(k)
            return r

        def randrange(self, start, stop=None, step=1):
            if not isinstance(start, int) or not isinstance(step, int) or not (stop is None or isinstance(stop, int)):
                raise TypeError('randrange() needs integers')
            if stop is None:
                if start <= 0:
                    raise ValueError('empty range for randrange()')
                return self.below(start)
            width = stop - start
            if step == 1:
                if width <= 0:
                    raise ValueError(f'empty range in randrange({start}, {stop})')
                return start + self.below(width)
            if step == 0:
                raise ValueError('zero step for randrange()')
            n = (width + step - 1) // step if step > 0 else (width + step + 1) // step
            if n <= 0:
                raise ValueError(f'empty range in randrange({start}, {stop}, {step})')
            return start + step * self.below(n)

        def randint(self, a, b):
            return self.randrange(a, b + 1)

        def choice(self, seq):
            if not len(seq):
                raise IndexError('Cannot choose from an empty sequence')
            return seq[self.below(len(seq))]

        def choices(self, population, weights=None, *, cum_weights=None, k=1):
            n = len(population)
            if cum_weights is None:
                if weights is None:
                    n += 0.0
                    return [population[math.floor(self.random() * n)] for _ in range(k)]
                cum_weights = []
                total = 0
                for weight in weights:
                    total += weight
                    cum_weights.append(total)
            elif weights is not None:
                raise TypeError('Cannot specify both weights and cumulative weights')
            if len(cum_weights) != n:
                raise ValueError('The number of weights does not match the population')
            total = cum_weights[-1] + 0.0
            if total <= 0.0:
                raise ValueError('Total of weights must be greater than zero')
            picked = []
            for _ in range(k):
                x = self.random() * total
                low, high = 0, n - 1
                while low < high:
                    middle = (low + high) // 2
                    if x < cum_weights[middle]:
                        high = middle
                    else:
                        low = middle + 1
                picked.append(population[low])
            return picked

        def shuffle(self, x):
            for i in reversed(range(1, len(x))):
                j = self.below(i + 1)
                kept = x[i]
                x[i] = x[j]
                x[j] = kept

        def sample(self, population, k, *, counts=None):
            if counts is not None:
                raise NotImplementedError('embedded Python: `random.sample` with `counts`')
            if isinstance(population, (set, frozenset, dict)):
                raise TypeError('Population must be a sequence.  For dicts or sets, use sorted(d).')
            n = len(population)
            if not 0 <= k <= n:
                raise ValueError('Sample larger than population or is negative')
            result = []
            setsize = 21
            if k > 5:
                power = 1
                while power < k * 3:
                    power *= 4
                setsize += power
            if n <= setsize:
                pool = list(population)
                for i in range(k):
                    j = self.below(n - i)
                    result.append(pool[j])
                    pool[j] = pool[n - i - 1]
            else:
                selected = set()
                for i in range(k):
                    j = self.below(n)
                    while j in selected:
                        j = self.below(n)
                    selected.add(j)
                    result.append(population[j])
            return result

        def uniform(self, a, b):
            return a + (b - a) * self.random()

        def triangular(self, low=0.0, high=1.0, mode=None):
            u = self.random()
            if high == low:
                return low
            c = 0.5 if mode is None else (mode - low) / (high - low)
            if u > c:
                u = 1.0 - u
                c = 1.0 - c
                kept = low
                low = high
                high = kept
            return low + (high - low) * math.sqrt(u * c)

        def normalvariate(self, mu=0.0, sigma=1.0):
            while True:
                u1 = self.random()
                u2 = 1.0 - self.random()
                z = NV * (u1 - 0.5) / u2
                if z * z / 4.0 <= -math.log(u2):
                    return mu + z * sigma

        def gauss(self, mu=0.0, sigma=1.0):
            z = self.__gauss
            self.__gauss = None
            if z is None:
                x2pi = self.random() * 2.0 * math.pi
                g2rad = math.sqrt(-2.0 * math.log(1.0 - self.random()))
                z = math.cos(x2pi) * g2rad
                self.__gauss = math.sin(x2pi) * g2rad
            return mu + z * sigma

        def lognormvariate(self, mu=0.0, sigma=1.0):
            return math.exp(self.normalvariate(mu, sigma))

        def expovariate(self, lambd=1.0):
            return -math.log(1.0 - self.random()) / lambd

    def number():
        value = 0
        for byte in __host_entropy__():
            value = value * 256 + byte
        return value

    shared = []

    def of(name):
        def call(*arguments, **named):
            if not shared:
                shared.append(Random())
            it = shared[0]
            if name == 'random':
                return it.random()
            if name == 'seed':
                return it.seed(*arguments, **named)
            if name == 'getrandbits':
                return it.getrandbits(*arguments, **named)
            if name == 'randrange':
                return it.randrange(*arguments, **named)
            if name == 'randint':
                return it.randint(*arguments, **named)
            if name == 'choice':
                return it.choice(*arguments, **named)
            if name == 'choices':
                return it.choices(*arguments, **named)
            if name == 'shuffle':
                return it.shuffle(*arguments, **named)
            if name == 'sample':
                return it.sample(*arguments, **named)
            if name == 'uniform':
                return it.uniform(*arguments, **named)
            if name == 'triangular':
                return it.triangular(*arguments, **named)
            if name == 'normalvariate':
                return it.normalvariate(*arguments, **named)
            if name == 'gauss':
                return it.gauss(*arguments, **named)
            if name == 'lognormvariate':
                return it.lognormvariate(*arguments, **named)
            return it.expovariate(*arguments, **named)
        return call

    return number, __make_module__('random', {
        'Random': Random, 'random': of('random'), 'seed': of('seed'), 'getrandbits': of('getrandbits'),
        'randrange': of('randrange'), 'randint': of('randint'), 'choice': of('choice'), 'choices': of('choices'),
        'shuffle': of('shuffle'), 'sample': of('sample'), 'uniform': of('uniform'), 'triangular': of('triangular'),
        'normalvariate': of('normalvariate'), 'gauss': of('gauss'), 'lognormvariate': of('lognormvariate'),
        'expovariate': of('expovariate'),
    })

__random_number__, __random__ = __random_module__()
