/* Stands in for the kernel's i915 and a GPU of Intel's, so that Mesa's ANV opens it and compiles for it. */
#define VENDOR 0x8086
#define DRIVER "i915"
#define VERSION 1, 0, 0
/* Arc A770 and Arc 140V: subslices, and execution units of each. */
#define GPUS {"dg2", 0x56a0, 16ull << 30, {32, 16}}, {"lnl", 0x64a0, 0, {8, 8}}
#include "null_gpu.h"
#include <i915_drm.h>

static const uint64_t HOST_BYTES = 32ull << 30, ADDRESSES = 1ull << 48;
enum { TIMESTAMP_HZ = 19200000 };
/* Of protected content, as the kernel's header has it since 6.12. */
enum { I915_PXP_STATUS = 58 };

/* Queries: the first time with length 0, for which they tell how long their answer is. */

static void answer_item(struct drm_i915_query_item *item, const void *data, size_t bytes) {
  if (item->length > 0) memcpy((void *)(uintptr_t)item->data_ptr, data, bytes);
  item->length = (int32_t)bytes;
}

/* One slice, of whose subslices and units none is fused off. */
static void answer_topology(struct drm_i915_query_item *item) {
  union {
    struct drm_i915_query_topology_info info;
    uint8_t bytes[512];
  } all = {0};
  const int mask = (gpu->units[0] + 7) / 8, stride = (gpu->units[1] + 7) / 8;
  all.info.max_slices = 1;
  all.info.max_subslices = gpu->units[0];
  all.info.max_eus_per_subslice = gpu->units[1];
  all.info.subslice_offset = 1;
  all.info.subslice_stride = mask;
  all.info.eu_offset = 1 + mask;
  all.info.eu_stride = stride;
  uint8_t *data = all.bytes + sizeof all.info;
  data[0] = 1;
  for (int i = 0; i < gpu->units[0]; i++) {
    data[1 + i / 8] |= 1 << i % 8;
    for (int unit = 0; unit < gpu->units[1]; unit++) data[1 + mask + i * stride + unit / 8] |= 1 << unit % 8;
  }
  answer_item(item, &all, sizeof all.info + 1 + mask + gpu->units[0] * stride);
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
  answer_item(item, &all, sizeof all.list + all.list.num_regions * sizeof *all.list.regions);
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

static int answer_driver(unsigned number, void *argument) {
  switch (number) {
    ANSWER(DRM_I915_QUERY, drm_i915_query, answer_query(asked))
    ANSWER(DRM_I915_GEM_CONTEXT_CREATE, drm_i915_gem_context_create, asked->ctx_id = new_handle(0))
    ANSWER(DRM_I915_GEM_CONTEXT_GETPARAM, drm_i915_gem_context_param,
           asked->value = asked->param == I915_CONTEXT_PARAM_GTT_SIZE ? ADDRESSES : 0)
    ANSWER(DRM_I915_GEM_CREATE, drm_i915_gem_create, asked->handle = new_handle(asked->size))
    ANSWER(DRM_I915_GEM_CREATE_EXT, drm_i915_gem_create_ext, asked->handle = new_handle(asked->size))
    ANSWER(DRM_I915_GEM_USERPTR, drm_i915_gem_userptr, asked->handle = new_handle(0))
    ANSWER(DRM_I915_GEM_MMAP_GTT, drm_i915_gem_mmap_offset, asked->offset = places[asked->handle % MAX_BUFFERS])
    ANSWER(DRM_I915_GEM_GET_APERTURE, drm_i915_gem_get_aperture,
           asked->aper_size = asked->aper_available_size = ADDRESSES)
    case DRM_I915_GETPARAM: {
      const struct drm_i915_getparam *asked = argument;
      if (asked->param == I915_PXP_STATUS) return errno = ENODEV, -1;
      *asked->value = parameter(asked->param);
      return 0;
    }
    default: return 0;
  }
}
