"""Videos between a first and a last frame, with a model of the Wan 2.2 TI2V type that has learnt it.

diffusers' pipeline gives such a model a first frame: a clean latent frame at timestep 0. Here the last frame is one
more of these, before the first: each is encoded as an image by itself. What is made begins behind both.
"""

import torch
from diffusers import WanImageToVideoPipeline


class LastFramePipeline(WanImageToVideoPipeline):
    """Takes `last_image`; its latents have one frame more than the video, the last image, at the front."""

    def prepare_latents(self, image, batch_size, num_channels_latents, height, width, num_frames, dtype, device,
                        generator, latents=None, last_image=None):
        """As diffusers does it, with both images as clean latent frames."""
        frames = num_frames + self.vae_scale_factor_temporal
        made, parts = None, []
        for given in (last_image, image):
            made, condition, mask = super().prepare_latents(
                given, batch_size, num_channels_latents, height, width, frames, dtype, device, generator,
                latents if made is None else made)
            parts.append(condition)
        mask[:, :, 1] = 0
        rest = made.new_zeros(*made.shape[:2], made.shape[2] - 2, *made.shape[3:])
        return made, torch.cat([*parts, rest], 2), mask

    @torch.no_grad()
    def frames_of(self, latents: torch.Tensor) -> torch.Tensor:
        """The video [frames, height, width, 3] in 0..1 of latents that `output_type="latent"` gave, [1, C, T, h, w]."""
        mean, std = (torch.tensor(self.vae.config[key]).view(1, -1, 1, 1, 1) for key in ("latents_mean", "latents_std"))
        video = self.vae.decode(latents[:, :, 1:] * std + mean).sample
        return (video[0].clamp(-1, 1) / 2 + 0.5).permute(1, 2, 3, 0)
