def __hashlib_module__():
    sizes = {'md5': (16, 64), 'sha1': (20, 64), 'sha224': (28, 64), 'sha256': (32, 64), 'sha384': (48, 128), 'sha512': (64, 128), 'blake2b': (64, 128)}
    MASK = 0xffffffff
    def sha1(data):
        h0, h1, h2, h3, h4 = 0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0
        count = len(data)
        zeros = (55 - count) % 64
        bits = count * 8
        words = [byte for byte in data] + [128] + [0] * zeros + [(bits >> shift) & 255 for shift in (56, 48, 40, 32, 24, 16, 8, 0)]
        for begin in range(0, len(words), 64):
            w = [(words[i] << 24) | (words[i + 1] << 16) | (words[i + 2] << 8) | words[i + 3] for i in range(begin, begin + 64, 4)]
            for i in range(16, 80):
                x = w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16]
                w.append(((x << 1) | (x >> 31)) & MASK)
            a, b, c, d, e = h0, h1, h2, h3, h4
            for i in range(80):
                if i < 20:
                    f, k = (b & c) | ((b ^ MASK) & d), 0x5A827999
                elif i < 40:
                    f, k = b ^ c ^ d, 0x6ED9EBA1
                elif i < 60:
                    f, k = (b & c) | (b & d) | (c & d), 0x8F1BBCDC
                else:
                    f, k = b ^ c ^ d, 0xCA62C1D6
                t = ((((a << 5) | (a >> 27)) & MASK) + f + e + k + w[i]) & MASK
                e, d, c, b, a = d, c, ((b << 30) | (b >> 2)) & MASK, a, t
            h0, h1, h2, h3, h4 = (h0 + a) & MASK, (h1 + b) & MASK, (h2 + c) & MASK, (h3 + d) & MASK, (h4 + e) & MASK
        return ''.join([f'{h:08x}' for h in (h0, h1, h2, h3, h4)])
    class HASH:
        def __init__(self, name, data):
            self.name = name
            self.digest_size = sizes[name][0]
            self.block_size = sizes[name][1]
            self.__data = b''
            self.update(data)
        def update(self, data):
            if isinstance(data, str):
                raise TypeError('Strings must be encoded before hashing')
            if not isinstance(data, bytes):
                raise TypeError('object supporting the buffer API required')
            self.__data = self.__data + data
        def hexdigest(self):
            if self.name == 'sha1':
                return sha1(self.__data)
            return __host_digest__(self.name, self.__data).hex()
        def digest(self):
            return bytes.fromhex(self.hexdigest())
        def copy(self):
            return HASH(self.name, self.__data)
    def new(name, data=b'', *, usedforsecurity=True):
        known = name.lower().replace('-', '')
        if known not in sizes:
            raise NotImplementedError('embedded Python: the digest `' + name + '`')
        return HASH(known, data)
    def of(name):
        def make(data=b'', *, usedforsecurity=True):
            return HASH(name, data)
        return make
    return __make_module__('hashlib', {
        'new': new, 'md5': of('md5'), 'sha1': of('sha1'), 'sha224': of('sha224'), 'sha256': of('sha256'),
        'sha384': of('sha384'), 'sha512': of('sha512'), 'blake2b': of('blake2b'),
    })

__hashlib__ = __hashlib_module__()
