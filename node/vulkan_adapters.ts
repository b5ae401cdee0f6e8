/** Adapters by Vulkan itself: Node has no calls of foreign functions; stands in for `engine/cards/vulkan_adapters.ts`. */
export function listVulkanAdapters(): undefined {}
