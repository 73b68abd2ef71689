def __uuid_module__():
    class UUID:
        def __init__(self, hex=None, bytes=None, bytes_le=None, fields=None, int=None, version=None):
            if int is not None:
                text = f'{int:032x}'
            elif bytes is not None:
                text = bytes.hex()
            elif hex is not None:
                text = hex.replace('urn:', '').replace('uuid:', '').strip('{}').replace('-', '').lower()
            else:
                raise NotImplementedError('embedded Python: these arguments of `UUID`')
            if len(text) != 32 or not all([c in '0123456789abcdef' for c in text]):
                raise ValueError('badly formed hexadecimal UUID string')
            if version is not None:
                variant = '89ab'['0123456789abcdef'.index(text[16]) % 4]
                text = text[:12] + str(version) + text[13:16] + variant + text[17:]
            self.hex = text
            self.int = number(text)
            self.version = number(text[12]) if text[16] in '89ab' else None
            self.urn = 'urn:uuid:' + str(self)
        def __str__(self):
            h = self.hex
            return h[:8] + '-' + h[8:12] + '-' + h[12:16] + '-' + h[16:20] + '-' + h[20:]
        def __repr__(self):
            return "UUID('" + str(self) + "')"
        def __eq__(self, other):
            return isinstance(other, UUID) and self.hex == other.hex
        def __hash__(self):
            return hash(self.int)
    def number(text):
        return int(text, 16)
    def uuid4():
        return UUID(int=__random_number__() >> 128, version=4)
    def uuid5(namespace, name):
        raw = bytes.fromhex(namespace.hex) + name.encode()
        return UUID(hex=digest1(raw)[:32], version=5)
    def uuid3(namespace, name):
        raw = bytes.fromhex(namespace.hex) + name.encode()
        return UUID(hex=__host_digest__('md5', raw).hex(), version=3)
    def digest1(raw):
        return __hashlib__.sha1(raw).hexdigest()
    return __make_module__('uuid', {
        'UUID': UUID, 'uuid4': uuid4, 'uuid5': uuid5, 'uuid3': uuid3,
        'NAMESPACE_DNS': UUID('6ba7b810-9dad-11d1-80b4-00c04fd430c8'), 'NAMESPACE_URL': UUID('6ba7b811-9dad-11d1-80b4-00c04fd430c8'),
        'NAMESPACE_OID': UUID('6ba7b812-9dad-11d1-80b4-00c04fd430c8'), 'NAMESPACE_X500': UUID('6ba7b814-9dad-11d1-80b4-00c04fd430c8'),
    })

__uuid__ = __uuid_module__()
