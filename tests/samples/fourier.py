"""The fast Fourier transform of a batch: complex numbers as structs with methods, bit reversal, butterflies."""

import numpy as np

N, BATCH = 32, 3


def make(qd):
    @qd.dataclass
    class Complex:
        re: float
        im: float

        @qd.func
        def plus(self, other: qd.template()):
            return Complex(self.re + other.re, self.im + other.im)

        @qd.func
        def minus(self, other: qd.template()):
            return Complex(self.re - other.re, self.im - other.im)

        @qd.func
        def times(self, other: qd.template()):
            return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    z = Complex.field(shape=(BATCH, N))

    @qd.func
    def mirrored(k, bits: qd.template()):
        out = 0
        for b in qd.static(range(bits)):
            out |= ((k >> b) & 1) << (bits - 1 - b)
        return out

    @qd.kernel
    def shuffle(bits: qd.template()):
        for b, k in qd.ndrange(BATCH, N):
            m = mirrored(k, bits)
            if k < m:
                first = z[b, k]
                z[b, k] = z[b, m]
                z[b, m] = first

    @qd.kernel
    def butterflies(half: qd.i32, sign: float):
        for b, k in qd.ndrange(BATCH, N // 2):
            offset = k % half
            i = 2 * (k - offset) + offset
            angle = sign * qd.math.pi * offset / half
            turn = Complex(qd.cos(angle), qd.sin(angle))
            low = z[b, i]
            high = turn.times(z[b, i + half])
            z[b, i] = low.plus(high)
            z[b, i + half] = low.minus(high)

    def transform(sign):
        bits = N.bit_length() - 1
        shuffle(bits)
        for k in range(bits):
            butterflies(1 << k, sign)

    def run():
        signal = waves()
        z.re.from_numpy(signal.real.copy())
        z.im.from_numpy(signal.imag.copy())
        transform(-1.0)
        out = {"re": z.re.to_numpy(), "im": z.im.to_numpy()}
        transform(1.0)
        return {**out, "back": z.re.to_numpy() / N}

    return run


def waves():
    k = np.arange(N)
    return np.stack([np.sin(0.4 * k * (b + 1)) + 1j * np.cos(0.9 * k + b) for b in range(BATCH)])


def expected():
    spectrum = np.fft.fft(waves())
    return {"re": spectrum.real, "im": spectrum.imag, "back": waves().real}
