"""`python -m tests.lab make-signals`: write `signals.zip`, signal processing as torch 2.13 exports it; needs onnxscript."""

import zipfile

import torch
from torch import nn

from tests.exported.store import EPOCH, stripped
from tests.lab.proof.signals import EXPORTED


class Stft(nn.Module):
    """Centred and reflected at the ends, as speech models have it."""

    def forward(self, x):
        found = torch.stft(x, 64, 16, window=torch.hann_window(64), return_complex=True)
        return torch.view_as_real(found)


class Power(nn.Module):
    def forward(self, x):
        found = torch.view_as_real(torch.stft(x, 64, 16, window=torch.hann_window(64), return_complex=True))
        return torch.log(found.pow(2).sum(-1) + 1e-6)


class Mel(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.filters = nn.Parameter(torch.rand(20, 33, generator=generator), requires_grad=False)

    def forward(self, x):
        found = torch.view_as_real(torch.stft(x, 64, 16, window=torch.hann_window(64), return_complex=True))
        return torch.log(torch.matmul(self.filters, found.pow(2).sum(-1)).clamp(min=1e-5))


class Fourier(nn.Module):
    """There and back."""

    def forward(self, x):
        return torch.fft.ifft(torch.fft.fft(x)).real


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.view_as_real(torch.fft.rfft(x))


class Mixer(nn.Module):
    """The token mixing of FNet."""

    def forward(self, x):
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


def main() -> None:
    with zipfile.ZipFile(EXPORTED, "w", zipfile.ZIP_LZMA) as out:
        for module in (Stft(), Power(), Mel(), Fourier(), Spectrum(), Mixer()):
            given = torch.randn(2, 16, 32) if isinstance(module, Mixer) else torch.randn(2, 512)
            program = torch.onnx.export(module.eval(), (given,), dynamo=True, verbose=False)
            data = stripped(program.model_proto).SerializeToString(deterministic=True)
            out.writestr(zipfile.ZipInfo(f"torch {type(module).__name__}.onnx", EPOCH), data, zipfile.ZIP_LZMA)


if __name__ == "__main__":
    main()
