/*
 * A Vulkan layer between Deno's WebGPU and Mesa's RADV without a GPU (RADV_FORCE_FAMILY), of which only the compiler works.
 *
 * - WebGPU opens a device only where there are timeline semaphores and memory, which that driver has not. Here every
 *   semaphore is a number, one type of memory is listed, and commands are neither recorded nor submitted.
 * - Of each compute pipeline it writes what VK_KHR_pipeline_executable_properties says into the file that
 *   DENOISE_LAYER_OUT names, as JSON, instead of what was there; with DENOISE_LAYER_ASSEMBLY also the assembly.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

/* More than the driver has of each for a compute pipeline, which is one executable. */
enum { STATISTICS = 64, TEXTS = 8 };
static const VkDeviceSize MEMORY_BYTES = 16ull << 30;
static const char *EXTENSION = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;

static VkInstance instance;
static PFN_vkGetInstanceProcAddr next_instance_function;
static PFN_vkGetDeviceProcAddr next_device_function;
static char driver[VK_MAX_DRIVER_INFO_SIZE];

/* Functions of the driver that are replaced by own_… of the same name. */
#define INSTANCE_FUNCTIONS(X) X(GetPhysicalDeviceMemoryProperties) X(GetPhysicalDeviceMemoryProperties2)
#define DEVICE_FUNCTIONS(X) \
  X(CreateComputePipelines) X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue) X(SignalSemaphore) \
  X(QueueSubmit) X(QueueSubmit2) X(GetBufferMemoryRequirements) X(GetBufferMemoryRequirements2) \
  X(GetDeviceBufferMemoryRequirements) X(GetImageMemoryRequirements) X(GetImageMemoryRequirements2)
#define DECLARE(name) static PFN_vk##name next_##name;
INSTANCE_FUNCTIONS(DECLARE)
DEVICE_FUNCTIONS(DECLARE)

/* Functions that succeed and do nothing, beside all vkCmd…. */
static const char *const IDLE[] = {
    "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkResetCommandBuffer", "vkResetCommandPool",
    "vkWaitSemaphores", "vkWaitForFences", "vkGetFenceStatus", "vkQueueWaitIdle", "vkDeviceWaitIdle",
};
static VKAPI_ATTR VkResult VKAPI_CALL succeed(void) { return VK_SUCCESS; }

/* Finds a structure in a chain. */
static const void *chained(const void *chain, VkStructureType type) {
  const VkBaseInStructure *each = chain;
  while (each && each->sType != type) each = each->pNext;
  return each;
}

/* Semaphores: a handle is the address of the value. What is submitted is done at once. */

static uint64_t *value_of(VkSemaphore semaphore) { return (uint64_t *)(uintptr_t)semaphore; }

static VKAPI_ATTR VkResult VKAPI_CALL own_CreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
                                                          const VkAllocationCallbacks *allocator, VkSemaphore *semaphore) {
  const VkSemaphoreTypeCreateInfo *type = chained(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  uint64_t *value = malloc(sizeof *value);
  if (!value) return VK_ERROR_OUT_OF_HOST_MEMORY;
  *value = type ? type->initialValue : 0;
  *semaphore = (VkSemaphore)(uintptr_t)value;
  return VK_SUCCESS;
}
static VKAPI_ATTR void VKAPI_CALL own_DestroySemaphore(VkDevice device, VkSemaphore semaphore,
                                                       const VkAllocationCallbacks *allocator) {
  free(value_of(semaphore));
}
static VKAPI_ATTR VkResult VKAPI_CALL own_GetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore,
                                                                   uint64_t *value) {
  *value = *value_of(semaphore);
  return VK_SUCCESS;
}
static VKAPI_ATTR VkResult VKAPI_CALL own_SignalSemaphore(VkDevice device, const VkSemaphoreSignalInfo *info) {
  *value_of(info->semaphore) = info->value;
  return VK_SUCCESS;
}
static VKAPI_ATTR VkResult VKAPI_CALL own_QueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits,
                                                      VkFence fence) {
  for (uint32_t i = 0; i < count; i++) {
    const VkTimelineSemaphoreSubmitInfo *values =
        chained(submits[i].pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    for (uint32_t j = 0; values && j < values->signalSemaphoreValueCount; j++)
      *value_of(submits[i].pSignalSemaphores[j]) = values->pSignalSemaphoreValues[j];
  }
  return VK_SUCCESS;
}
static VKAPI_ATTR VkResult VKAPI_CALL own_QueueSubmit2(VkQueue queue, uint32_t count, const VkSubmitInfo2 *submits,
                                                       VkFence fence) {
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t j = 0; j < submits[i].signalSemaphoreInfoCount; j++) {
      const VkSemaphoreSubmitInfo *signal = &submits[i].pSignalSemaphoreInfos[j];
      *value_of(signal->semaphore) = signal->value;
    }
  return VK_SUCCESS;
}

/* Memory: one type, which holds everything, where the driver has none. */

static int list_memory(VkPhysicalDeviceMemoryProperties *memory) {
  if (memory->memoryTypeCount > 0) return 0;
  const VkMemoryPropertyFlags all = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                    VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  *memory = (VkPhysicalDeviceMemoryProperties){.memoryTypeCount = 1, .memoryHeapCount = 1};
  memory->memoryTypes[0] = (VkMemoryType){all, 0};
  memory->memoryHeaps[0] = (VkMemoryHeap){MEMORY_BYTES, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  return 1;
}
static VKAPI_ATTR void VKAPI_CALL own_GetPhysicalDeviceMemoryProperties(VkPhysicalDevice physical,
                                                                        VkPhysicalDeviceMemoryProperties *memory) {
  next_GetPhysicalDeviceMemoryProperties(physical, memory);
  list_memory(memory);
}
static VKAPI_ATTR void VKAPI_CALL own_GetPhysicalDeviceMemoryProperties2(VkPhysicalDevice physical,
                                                                         VkPhysicalDeviceMemoryProperties2 *memory) {
  next_GetPhysicalDeviceMemoryProperties2(physical, memory);
  if (!list_memory(&memory->memoryProperties)) return;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget =
      (void *)chained(memory->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  if (budget) budget->heapBudget[0] = MEMORY_BYTES;
}

#define REQUIREMENTS(name, Asked, Told, told) \
  static VKAPI_ATTR void VKAPI_CALL own_##name(VkDevice device, Asked asked, Told *requirements) { \
    next_##name(device, asked, requirements); \
    if ((told).memoryTypeBits == 0) (told).memoryTypeBits = 1; \
  }
REQUIREMENTS(GetBufferMemoryRequirements, VkBuffer, VkMemoryRequirements, *requirements)
REQUIREMENTS(GetImageMemoryRequirements, VkImage, VkMemoryRequirements, *requirements)
REQUIREMENTS(GetBufferMemoryRequirements2, const VkBufferMemoryRequirementsInfo2 *, VkMemoryRequirements2,
             requirements->memoryRequirements)
REQUIREMENTS(GetImageMemoryRequirements2, const VkImageMemoryRequirementsInfo2 *, VkMemoryRequirements2,
             requirements->memoryRequirements)
REQUIREMENTS(GetDeviceBufferMemoryRequirements, const VkDeviceBufferMemoryRequirements *, VkMemoryRequirements2,
             requirements->memoryRequirements)

/* Pipelines: what the compiler says of each. */

static void write_text(FILE *out, const char *text, size_t length) {
  fputc('"', out);
  for (size_t i = 0; i < length && text[i]; i++) {
    unsigned char each = text[i];
    if (each < ' ' || each == '"' || each == '\\') fprintf(out, "\\u%04x", each);
    else fputc(each, out);
  }
  fputc('"', out);
}

static uint32_t subgroup_size(VkDevice device, VkPipeline pipeline) {
  PFN_vkGetPipelineExecutablePropertiesKHR get = (void *)next_device_function(device, "vkGetPipelineExecutablePropertiesKHR");
  const VkPipelineInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, NULL, pipeline};
  VkPipelineExecutablePropertiesKHR properties = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
  uint32_t count = 1;
  get(device, &info, &count, &properties);
  return properties.subgroupSize;
}

static void write_statistics(FILE *out, VkDevice device, const VkPipelineExecutableInfoKHR *executable) {
  PFN_vkGetPipelineExecutableStatisticsKHR get = (void *)next_device_function(device, "vkGetPipelineExecutableStatisticsKHR");
  static VkPipelineExecutableStatisticKHR statistics[STATISTICS];
  uint32_t count = STATISTICS;
  for (uint32_t i = 0; i < count; i++) statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
  get(device, executable, &count, statistics);
  for (uint32_t i = 0; i < count; i++) {
    const VkPipelineExecutableStatisticKHR *each = &statistics[i];
    fputs(i == 0 ? "" : ",", out);
    write_text(out, each->name, sizeof each->name);
    if (each->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR) fprintf(out, ":%g", each->value.f64);
    else if (each->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR) fprintf(out, ":%u", each->value.b32);
    else fprintf(out, ":%llu", (unsigned long long)each->value.u64);
  }
}

/* The last of the texts that the compiler has for its stages. */
static void write_assembly(FILE *out, VkDevice device, const VkPipelineExecutableInfoKHR *executable) {
  PFN_vkGetPipelineExecutableInternalRepresentationsKHR get =
      (void *)next_device_function(device, "vkGetPipelineExecutableInternalRepresentationsKHR");
  VkPipelineExecutableInternalRepresentationKHR texts[TEXTS] = {0};
  uint32_t count = TEXTS;
  for (uint32_t i = 0; i < count; i++) texts[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
  get(device, executable, &count, texts);
  for (uint32_t i = 0; i < count; i++) texts[i].pData = malloc(texts[i].dataSize);
  get(device, executable, &count, texts);
  if (count > 0) write_text(out, texts[count - 1].pData, texts[count - 1].dataSize);
  else write_text(out, "", 0);
  for (uint32_t i = 0; i < count; i++) free(texts[i].pData);
}

static VKAPI_ATTR VkResult VKAPI_CALL own_CreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                                 const VkComputePipelineCreateInfo *infos,
                                                                 const VkAllocationCallbacks *allocator,
                                                                 VkPipeline *pipelines) {
  const int wants_assembly = getenv("DENOISE_LAYER_ASSEMBLY") != NULL;
  for (uint32_t i = 0; i < count; i++) {
    VkComputePipelineCreateInfo info = infos[i];
    info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    if (wants_assembly) info.flags |= VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    VkResult result = next_CreateComputePipelines(device, cache, 1, &info, allocator, &pipelines[i]);
    if (result != VK_SUCCESS) return result;
    const char *path = getenv("DENOISE_LAYER_OUT");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out) continue;
    const VkPipelineExecutableInfoKHR executable = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, NULL, pipelines[i], 0};
    fputs("{\"driver\":", out);
    write_text(out, driver, sizeof driver);
    fprintf(out, ",\"subgroupSize\":%u,\"statistics\":{", subgroup_size(device, pipelines[i]));
    write_statistics(out, device, &executable);
    fputs("}", out);
    if (wants_assembly) {
      fputs(",\"assembly\":", out);
      write_assembly(out, device, &executable);
    }
    fputs("}\n", out);
    fclose(out);
  }
  return VK_SUCCESS;
}

/* The way of the loader to all of it. */

static int is_called(const char *asked, const char *name) {
  const size_t length = strlen(name);
  return !strncmp(asked, name, length) && (asked[length] == 0 || !strcmp(asked + length, "KHR"));
}

static VKAPI_ATTR VkResult VKAPI_CALL own_CreateInstance(const VkInstanceCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkInstance *created) {
  VkLayerInstanceCreateInfo *link = (void *)info->pNext;
  while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
    link = (void *)link->pNext;
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  next_instance_function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  VkResult result = ((PFN_vkCreateInstance)next_instance_function(NULL, "vkCreateInstance"))(info, allocator, created);
  instance = *created;
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL own_CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                       const VkAllocationCallbacks *allocator, VkDevice *created) {
  VkLayerDeviceCreateInfo *link = (void *)info->pNext;
  while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
    link = (void *)link->pNext;
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  next_device_function = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;

  PFN_vkGetPhysicalDeviceProperties2 get_properties = (void *)next_instance_function(instance, "vkGetPhysicalDeviceProperties2");
  VkPhysicalDeviceDriverProperties named = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceProperties2 properties = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &named};
  if (get_properties) get_properties(physical, &properties);
  memcpy(driver, named.driverInfo, sizeof driver);

  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, (void *)info->pNext, VK_TRUE};
  const uint32_t count = info->enabledExtensionCount;
  const char **names = malloc((count + 1) * sizeof *names);
  if (!names) return VK_ERROR_OUT_OF_HOST_MEMORY;
  for (uint32_t i = 0; i < count; i++) names[i] = info->ppEnabledExtensionNames[i];
  names[count] = EXTENSION;
  VkDeviceCreateInfo wanted = *info;
  wanted.pNext = &feature;
  wanted.enabledExtensionCount = count + 1;
  wanted.ppEnabledExtensionNames = names;
  VkResult result = ((PFN_vkCreateDevice)next_instance_function(instance, "vkCreateDevice"))(physical, &wanted, allocator, created);
  free(names);
  return result;
}

#define RETURN(name, function) if (!strcmp(asked, name)) return (PFN_vkVoidFunction)(function);
#define RETURN_OWN(name) \
  if (is_called(asked, "vk" #name)) { \
    next_##name = (PFN_vk##name)next; \
    return next ? (PFN_vkVoidFunction)own_##name : NULL; \
  }

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *asked) {
  RETURN("vkGetDeviceProcAddr", device_function)
  PFN_vkVoidFunction next = next_device_function(device, asked);
  DEVICE_FUNCTIONS(RETURN_OWN)
  int is_idle = !strncmp(asked, "vkCmd", 5);
  for (size_t i = 0; i < sizeof IDLE / sizeof *IDLE; i++) is_idle |= is_called(asked, IDLE[i]);
  /* Arguments of a function that takes none stay where the caller left them. */
  return is_idle && next ? (PFN_vkVoidFunction)succeed : next;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance of, const char *asked) {
  RETURN("vkGetInstanceProcAddr", instance_function)
  RETURN("vkCreateInstance", own_CreateInstance)
  RETURN("vkCreateDevice", own_CreateDevice)
  RETURN("vkGetDeviceProcAddr", device_function)
  if (!next_instance_function) return NULL;
  PFN_vkVoidFunction next = next_instance_function(of, asked);
  INSTANCE_FUNCTIONS(RETURN_OWN)
  return next;
}

VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version) {
  version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = instance_function;
  version->pfnGetDeviceProcAddr = device_function;
  version->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
