import math as __native_math__

def __math_module__():
    native = __native_math__
    def prod(iterable, *, start=1):
        for value in iterable:
            if value is True or value is False:
                value = int(value)
            start = start * value
        return start
    def fsum(seq):
        top, bottom = 0, 1
        for value in seq:
            if isinstance(value, int):
                a, b = int(value), 1
            elif value - value != 0:
                raise NotImplementedError('embedded Python: `math.fsum` of values that are not finite')
            else:
                mantissa, exponent = native.frexp(value)
                exponent -= 53
                a = int(mantissa * 9007199254740992)
                a, b = (a << exponent, 1) if exponent >= 0 else (a, 1 << -exponent)
            if b > bottom:
                top = top * (b // bottom) + a
                bottom = b
            else:
                top += a * (bottom // b)
        return __exact_div__(top, bottom)
    return __make_module__('math', {
        'prod': prod, 'fsum': fsum,
        'acos': native.acos, 'acosh': native.acosh, 'asin': native.asin, 'asinh': native.asinh,
        'atan': native.atan, 'atan2': native.atan2, 'atanh': native.atanh, 'ceil': native.ceil,
        'comb': native.comb, 'copysign': native.copysign, 'cos': native.cos, 'cosh': native.cosh,
        'degrees': native.degrees, 'erf': native.erf, 'erfc': native.erfc, 'exp': native.exp,
        'exp2': native.exp2, 'expm1': native.expm1, 'fabs': native.fabs, 'factorial': native.factorial,
        'floor': native.floor, 'fmod': native.fmod, 'frexp': native.frexp, 'gamma': native.gamma,
        'gcd': native.gcd, 'isclose': native.isclose, 'isfinite': native.isfinite, 'isinf': native.isinf,
        'isnan': native.isnan, 'isqrt': native.isqrt, 'lcm': native.lcm, 'ldexp': native.ldexp,
        'log': native.log, 'log10': native.log10, 'log1p': native.log1p, 'log2': native.log2, 'e': native.e,
        'inf': native.inf, 'nan': native.nan, 'modf': native.modf, 'nextafter': native.nextafter,
        'perm': native.perm, 'pi': native.pi, 'pow': native.pow, 'radians': native.radians,
        'remainder': native.remainder, 'sin': native.sin, 'sinh': native.sinh, 'sqrt': native.sqrt,
        'tan': native.tan, 'tanh': native.tanh, 'tau': native.tau, 'trunc': native.trunc, 'ulp': native.ulp,
    })

__math__ = __math_module__()
