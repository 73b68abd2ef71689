def __statistics_module__():
    import math
    def data_of(data, least, message):
        values = list(data)
        if len(values) < least:
            raise NotImplementedError('embedded Python: `statistics.StatisticsError` (' + message + ')')
        for value in values:
            if not isinstance(value, (int, float)) or value - value != 0:
                raise NotImplementedError('embedded Python: `statistics` of values other than finite numbers')
        return values
    def ratio(value):
        if isinstance(value, int):
            return int(value), 1
        mantissa, exponent = math.frexp(value)
        top = int(mantissa * 9007199254740992)
        exponent -= 53
        if exponent >= 0:
            return top << exponent, 1
        return top, 1 << -exponent
    def total(values):
        top, bottom = 0, 1
        for value in values:
            a, b = ratio(value)
            if b == bottom:
                top += a
            elif b > bottom:
                top = top * (b // bottom) + a
                bottom = b
            else:
                top += a * (bottom // b)
        return top, bottom
    def whole(values):
        return all([isinstance(value, int) for value in values])
    def mean(data):
        values = data_of(data, 1, 'mean requires at least one data point')
        top, bottom = total(values)
        bottom *= len(values)
        if whole(values) and top % bottom == 0:
            return top // bottom
        return __div__(top, bottom)
    def fmean(data, weights=None):
        if weights is not None:
            raise NotImplementedError('embedded Python: `statistics.fmean` with weights')
        values = data_of(data, 1, 'fmean requires at least one data point')
        top, bottom = total(values)
        return __div__(top, bottom) / len(values)
    def median(data):
        values = sorted(data_of(data, 1, 'no median for empty data'))
        n = len(values)
        if n % 2:
            return values[n // 2]
        return (values[n // 2 - 1] + values[n // 2]) / 2
    def median_low(data):
        values = sorted(data_of(data, 1, 'no median for empty data'))
        return values[(len(values) - 1) // 2]
    def median_high(data):
        values = sorted(data_of(data, 1, 'no median for empty data'))
        return values[len(values) // 2]
    def counts(data):
        found = {}
        for value in data:
            found[value] = found.get(value, 0) + 1
        return found
    def mode(data):
        found = counts(data)
        if not found:
            raise NotImplementedError('embedded Python: `statistics.StatisticsError` (no mode for empty data)')
        most = max(found.values())
        return [value for value in found if found[value] == most][0]
    def multimode(data):
        found = counts(data)
        most = max(found.values(), default=0)
        return [value for value in found if found[value] == most]
    return __make_module__('statistics', {
        'mean': mean, 'fmean': fmean, 'median': median, 'median_low': median_low, 'median_high': median_high,
        'mode': mode, 'multimode': multimode,
    })

__statistics__ = __statistics_module__()
