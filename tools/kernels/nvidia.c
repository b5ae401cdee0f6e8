/* Stands in for the kernel's nouveau and a GPU of NVIDIA's, so that Mesa's NVK opens it and compiles for it. */
#define VENDOR 0x10de
#define DRIVER "nouveau"
#define VERSION 1, 4, 0
/* GeForce RTX 3090: chipset, clusters (GPC), and texture clusters (TPC) of all of them. */
#define GPUS {"ga102", 0x2204, 24ull << 30, {0x172, 7, 41}}
#include "null_gpu.h"
#include <nouveau/nvif/cl0080.h>
#include <nouveau/nvif/ioctl.h>
#include <nouveau_drm.h>

/* As the kernel's headers have them since 6.6, and later. */
enum { NOUVEAU_VM_INIT = 0x10, NOUVEAU_VM_BIND, NOUVEAU_EXEC, NOUVEAU_GET_ZCULL_INFO };
enum { GETPARAM_EXEC_PUSH_MAX = 17, GETPARAM_VRAM_BAR_SIZE, GETPARAM_VRAM_USED };

/* Engines of a channel: memory, 2D, copies, 3D, compute. The last two digits name the engine, the first two its generation. */
static const int ENGINES[] = {0xa140, 0x902d, 0xc7b5, 0xc797, 0xc7c0};

static int answer_parameter(struct drm_nouveau_getparam *asked) {
  switch (asked->param) {
    case NOUVEAU_GETPARAM_PCI_VENDOR: asked->value = VENDOR; return 0;
    case NOUVEAU_GETPARAM_PCI_DEVICE: asked->value = gpu->device; return 0;
    case NOUVEAU_GETPARAM_CHIPSET_ID: asked->value = gpu->units[0]; return 0;
    case NOUVEAU_GETPARAM_GRAPH_UNITS: asked->value = gpu->units[1] | gpu->units[2] << 8; return 0;
    case GETPARAM_EXEC_PUSH_MAX: asked->value = 1 << 10; return 0;
    case GETPARAM_VRAM_BAR_SIZE: asked->value = gpu->memory; return 0;
    case GETPARAM_VRAM_USED: asked->value = 0; return 0;
    default: return errno = EINVAL, -1;
  }
}

static void answer_object(struct nvif_ioctl_v0 *asked) {
  if (asked->type == NVIF_IOCTL_V0_MTHD) {
    struct nvif_ioctl_mthd_v0 *method = (void *)asked->data;
    if (method->method != NV_DEVICE_V0_INFO) return;
    struct nv_device_info_v0 *info = (void *)method->data;
    info->platform = NV_DEVICE_INFO_V0_PCIE;
    info->chipset = gpu->units[0];
    info->ram_size = info->ram_user = gpu->memory;
  } else if (asked->type == NVIF_IOCTL_V0_SCLASS) {
    struct nvif_ioctl_sclass_v0 *list = (void *)asked->data;
    const int count = sizeof ENGINES / sizeof *ENGINES;
    for (int i = 0; i < list->count; i++) list->oclass[i].oclass = i < count ? ENGINES[i] : 0;
    list->count = count;
  }
}

static int answer_driver(unsigned number, void *argument) {
  switch (number) {
    case DRM_NOUVEAU_GETPARAM: return answer_parameter(argument);
    ANSWER(DRM_NOUVEAU_NVIF, nvif_ioctl_v0, answer_object(asked))
    ANSWER(DRM_NOUVEAU_CHANNEL_ALLOC, drm_nouveau_channel_alloc, asked->channel = new_handle(0))
    ANSWER(DRM_NOUVEAU_GEM_NEW, drm_nouveau_gem_new, asked->info.handle = new_handle(asked->info.size);
           asked->info.map_handle = places[asked->info.handle % MAX_BUFFERS])
    case NOUVEAU_GET_ZCULL_INFO: return errno = EINVAL, -1;
    default: return 0;
  }
}
