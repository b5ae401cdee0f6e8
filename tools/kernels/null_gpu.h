/*
 * What a Vulkan driver needs of the kernel to open a GPU that is not there, and to compile for it: a library, loaded before
 * libdrm, that lists one GPU, gives each buffer a place in a file, and answers every request of DRM. Nothing runs.
 * DENOISE_NULL_GPU names the GPU. `intel.c` and `nvidia.c` define VENDOR, DRIVER, its VERSION (major, minor, patch) and the rows
 * of GPUS before they include this, and then what answers a driver's own requests.
 */
#define _GNU_SOURCE
#include <drm.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xf86drm.h>

/* PCI device, bytes of memory of its own, and numbers that the driver's file explains. */
static const struct gpu {
  const char *name;
  uint16_t device;
  uint64_t memory;
  int units[3];
} TABLE[] = {GPUS};

/* Answers a request of the driver's own: 0, or -1 with errno. */
static int answer_driver(unsigned number, void *argument);

static const uint64_t FILE_BYTES = 1ull << 40;
enum { MAX_BUFFERS = 1 << 16, REVISION = 8, PAGE = 65536 };

static const struct gpu *gpu;
/* What stands for the device's node is a file, in which each buffer has its place, so that mapping works. */
static int file = -1;
static char path[64];
static uint32_t handles;
static uint64_t used, places[MAX_BUFFERS];

__attribute__((constructor)) static void start(void) {
  const char *name = getenv("DENOISE_NULL_GPU");
  for (size_t i = 0; name && i < sizeof TABLE / sizeof *TABLE; i++)
    if (!strcmp(name, TABLE[i].name)) gpu = &TABLE[i];
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
  all->info = (drmPciDeviceInfo){.vendor_id = VENDOR, .device_id = gpu->device, .revision_id = REVISION};
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
int drmGetDeviceFromDevId(dev_t id, uint32_t flags, drmDevicePtr *device) { return drmGetDevice2(file, flags, device); }
void drmFreeDevice(drmDevicePtr *device) {
  free(*device);
  *device = NULL;
}
void drmFreeDevices(drmDevicePtr devices[], int count) {
  for (int i = 0; i < count; i++) drmFreeDevice(&devices[i]);
}

static void answer_version(struct drm_version *version) {
  if (version->name && version->name_len >= strlen(DRIVER)) memcpy(version->name, DRIVER, strlen(DRIVER));
  const int numbers[] = {VERSION};
  version->name_len = strlen(DRIVER);
  version->date_len = version->desc_len = 0;
  version->version_major = numbers[0];
  version->version_minor = numbers[1];
  version->version_patchlevel = numbers[2];
}

/* A case for a request by its number and the type of what it carries, `asked`. */
#define ANSWER(number, type, ...) \
  case number: { \
    struct type *asked = argument; \
    __VA_ARGS__; \
    return 0; \
  }

/* Requests of DRM; all others go to the kernel. */
int ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void *argument = va_arg(list, void *);
  va_end(list);
  if (_IOC_TYPE(request) != DRM_IOCTL_BASE || !gpu) return syscall(SYS_ioctl, fd, request, argument);
  const unsigned number = _IOC_NR(request);
  if (number >= DRM_COMMAND_BASE && number < DRM_COMMAND_END)
    return answer_driver(number - DRM_COMMAND_BASE, argument);
  switch (number) {
    ANSWER(_IOC_NR(DRM_IOCTL_VERSION), drm_version, answer_version(asked))
    ANSWER(_IOC_NR(DRM_IOCTL_GET_CAP), drm_get_cap, asked->value = 1)
    ANSWER(_IOC_NR(DRM_IOCTL_SYNCOBJ_CREATE), drm_syncobj_create, asked->handle = new_handle(0))
    default: return 0;
  }
}
