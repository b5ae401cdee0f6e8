/*
 * Stands in for the kernel's i915 and an Intel GPU that is not there, so that Mesa's ANV opens it and compiles for it: loaded
 * before libdrm, it lists one GPU and answers every request of DRM. Nothing runs. DENOISE_INTEL_GPU names the GPU.
 */
#define _GNU_SOURCE
#include <drm.h>
#include <errno.h>
#include <i915_drm.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xf86drm.h>

/* PCI device, subslices, execution units of each, and bytes of memory of its own. */
static const struct gpu {
  const char *name;
  uint16_t device;
  int subslices, units;
  uint64_t memory;
} GPUS[] = {
    {"dg2", 0x56a0, 32, 16, 16ull << 30}, /* Arc A770 */
    {"lnl", 0x64a0, 8, 8, 0},             /* Arc 140V */
};
static const uint64_t HOST_BYTES = 32ull << 30, FILE_BYTES = 1ull << 40, ADDRESSES = 1ull << 48;
enum { MAX_BUFFERS = 1 << 16, TIMESTAMP_HZ = 19200000, REVISION = 8, PAGE = 65536 };
/* Of protected content, as the kernel's header has it since 6.12. */
enum { I915_PXP_STATUS = 58 };

static const struct gpu *gpu;
/* What stands for the device's node is a file, in which each buffer has its place, so that mapping works. */
static int file = -1;
static char path[64];
static uint32_t handles;
static uint64_t used, places[MAX_BUFFERS];

__attribute__((constructor)) static void start(void) {
  const char *name = getenv("DENOISE_INTEL_GPU");
  for (size_t i = 0; name && i < sizeof GPUS / sizeof *GPUS; i++)
    if (!strcmp(name, GPUS[i].name)) gpu = &GPUS[i];
  if (!gpu) return;
  file = memfd_create("gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, FILE_BYTES) != 0) abort();
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), file);
}

static uint32_t new_handle(uint64_t bytes) {
  uint32_t handle = __atomic_add_fetch(&handles, 1, __ATOMIC_SEQ_CST);
  uint64_t rounded = (bytes + PAGE - 1) / PAGE * PAGE;
  places[handle % MAX_BUFFERS] = __atomic_fetch_add(&used, rounded, __ATOMIC_SEQ_CST);
  return handle;
}

/* Of libdrm: the list of devices. */

static drmDevicePtr new_device(void) {
  struct all {
    drmDevice device;
    char *nodes[DRM_NODE_MAX];
    drmPciBusInfo bus;
    drmPciDeviceInfo info;
  } *all = calloc(1, sizeof *all);
  if (!all) abort();
  all->bus.bus = 2;
  all->info = (drmPciDeviceInfo){.vendor_id = 0x8086, .device_id = gpu->device, .revision_id = REVISION};
  all->nodes[DRM_NODE_RENDER] = path;
  all->device.nodes = all->nodes;
  all->device.available_nodes = 1 << DRM_NODE_RENDER;
  all->device.bustype = DRM_BUS_PCI;
  all->device.businfo.pci = &all->bus;
  all->device.deviceinfo.pci = &all->info;
  return &all->device;
}
int drmGetDevices2(uint32_t flags, drmDevicePtr devices[], int count) {
  if (devices && count > 0) devices[0] = new_device();
  return 1;
}
int drmGetDevice2(int fd, uint32_t flags, drmDevicePtr *device) {
  *device = new_device();
  return 0;
}
void drmFreeDevice(drmDevicePtr *device) {
  free(*device);
  *device = NULL;
}
void drmFreeDevices(drmDevicePtr devices[], int count) {
  for (int i = 0; i < count; i++) drmFreeDevice(&devices[i]);
}

/* Queries: the first time with length 0, for which they tell how long their answer is. */

static void answer(struct drm_i915_query_item *item, const void *data, size_t bytes) {
  if (item->length > 0) memcpy((void *)(uintptr_t)item->data_ptr, data, bytes);
  item->length = (int32_t)bytes;
}

/* One slice, of whose subslices and units none is fused off. */
static void answer_topology(struct drm_i915_query_item *item) {
  union {
    struct drm_i915_query_topology_info info;
    uint8_t bytes[512];
  } all = {0};
  const int mask = (gpu->subslices + 7) / 8, stride = (gpu->units + 7) / 8;
  all.info.max_slices = 1;
  all.info.max_subslices = gpu->subslices;
  all.info.max_eus_per_subslice = gpu->units;
  all.info.subslice_offset = 1;
  all.info.subslice_stride = mask;
  all.info.eu_offset = 1 + mask;
  all.info.eu_stride = stride;
  uint8_t *data = all.bytes + sizeof all.info;
  data[0] = 1;
  for (int i = 0; i < gpu->subslices; i++) {
    data[1 + i / 8] |= 1 << i % 8;
    for (int unit = 0; unit < gpu->units; unit++) data[1 + mask + i * stride + unit / 8] |= 1 << unit % 8;
  }
  answer(item, &all, sizeof all.info + 1 + mask + gpu->subslices * stride);
}

static void answer_memory(struct drm_i915_query_item *item) {
  union {
    struct drm_i915_query_memory_regions list;
    uint8_t bytes[512];
  } all = {0};
  const uint64_t sizes[] = {HOST_BYTES, gpu->memory};
  all.list.num_regions = gpu->memory > 0 ? 2 : 1;
  for (uint32_t i = 0; i < all.list.num_regions; i++) {
    struct drm_i915_memory_region_info *region = &all.list.regions[i];
    region->region.memory_class = i == 0 ? I915_MEMORY_CLASS_SYSTEM : I915_MEMORY_CLASS_DEVICE;
    region->probed_size = region->unallocated_size = sizes[i];
    region->probed_cpu_visible_size = region->unallocated_cpu_visible_size = sizes[i];
  }
  answer(item, &all, sizeof all.list + all.list.num_regions * sizeof *all.list.regions);
}

static void answer_query(struct drm_i915_query *query) {
  struct drm_i915_query_item *items = (void *)(uintptr_t)query->items_ptr;
  for (uint32_t i = 0; i < query->num_items; i++) {
    switch (items[i].query_id) {
      case DRM_I915_QUERY_TOPOLOGY_INFO:
      case DRM_I915_QUERY_GEOMETRY_SUBSLICES: answer_topology(&items[i]); break;
      case DRM_I915_QUERY_MEMORY_REGIONS: answer_memory(&items[i]); break;
      default: items[i].length = -EINVAL;
    }
  }
}

/* Numbers; all other parameters say whether the kernel has something, which it has. */
static int parameter(int asked) {
  switch (asked) {
    case I915_PARAM_CHIPSET_ID: return gpu->device;
    case I915_PARAM_REVISION: return REVISION;
    case I915_PARAM_CS_TIMESTAMP_FREQUENCY: return TIMESTAMP_HZ;
    case I915_PARAM_MMAP_GTT_VERSION: return 4;
    default: return 1;
  }
}

static void answer_version(struct drm_version *version) {
  static const char NAME[] = "i915";
  if (version->name && version->name_len >= strlen(NAME)) memcpy(version->name, NAME, strlen(NAME));
  version->name_len = strlen(NAME);
  version->date_len = version->desc_len = 0;
  version->version_major = 1;
}

/* Requests of DRM; all others go to the kernel. */
int ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void *argument = va_arg(list, void *);
  va_end(list);
  if (_IOC_TYPE(request) != DRM_IOCTL_BASE || !gpu) return syscall(SYS_ioctl, fd, request, argument);
#define ANSWER(name, type, ...) \
  case _IOC_NR(DRM_IOCTL_##name): { \
    struct type *asked = argument; \
    __VA_ARGS__; \
    return 0; \
  }
  switch (_IOC_NR(request)) {
    ANSWER(VERSION, drm_version, answer_version(asked))
    ANSWER(GET_CAP, drm_get_cap, asked->value = 1)
    ANSWER(SYNCOBJ_CREATE, drm_syncobj_create, asked->handle = new_handle(0))
    ANSWER(I915_QUERY, drm_i915_query, answer_query(asked))
    ANSWER(I915_GEM_CONTEXT_CREATE, drm_i915_gem_context_create, asked->ctx_id = new_handle(0))
    ANSWER(I915_GEM_CONTEXT_GETPARAM, drm_i915_gem_context_param,
           asked->value = asked->param == I915_CONTEXT_PARAM_GTT_SIZE ? ADDRESSES : 0)
    ANSWER(I915_GEM_CREATE, drm_i915_gem_create, asked->handle = new_handle(asked->size))
    ANSWER(I915_GEM_CREATE_EXT, drm_i915_gem_create_ext, asked->handle = new_handle(asked->size))
    ANSWER(I915_GEM_USERPTR, drm_i915_gem_userptr, asked->handle = new_handle(0))
    ANSWER(I915_GEM_MMAP_OFFSET, drm_i915_gem_mmap_offset, asked->offset = places[asked->handle % MAX_BUFFERS])
    ANSWER(I915_GEM_GET_APERTURE, drm_i915_gem_get_aperture,
           asked->aper_size = asked->aper_available_size = ADDRESSES)
    case _IOC_NR(DRM_IOCTL_I915_GETPARAM): {
      const struct drm_i915_getparam *asked = argument;
      if (asked->param == I915_PXP_STATUS) return errno = ENODEV, -1;
      *asked->value = parameter(asked->param);
      return 0;
    }
    default: return 0;
  }
}
