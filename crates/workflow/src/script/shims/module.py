def __module_maker__():
    class module:
        def __repr__(self):
            return '<module ' + repr(self.__name__) + '>'
    def make(name, parts):
        made = module()
        made.__name__ = name
        for key, value in parts.items():
            setattr(made, key, value)
        return made
    return make

__make_module__ = __module_maker__()
