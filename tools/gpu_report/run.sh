#!/bin/sh
# Starts the report of a kit: unpacks Deno and Dawn beside itself on the first start, then runs denoise
# report with the same flags. Nothing is fetched, and nothing is written but the folder "unpacked" (in the
# temporary folder where the kit cannot be written to) and the report.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)

say() {
  printf 'denoise: %s\n' "$*" >&2
}

# unpack FILE TARGET: FILE.xz becomes TARGET, at one stroke.
unpack() {
  [ ! -e "$2" ] || return 0
  if command -v xz >/dev/null 2>&1; then
    xz -dc "$1.xz" >"$2.new"
  elif command -v python3 >/dev/null 2>&1; then
    python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1.xz" >"$2.new"
  else
    say "Cannot unpack $1.xz: neither xz nor python3 is on this machine; install xz"
    exit 1
  fi
  mv "$2.new" "$2"
}

unpacked=$here/unpacked
if ! mkdir -p "$unpacked" 2>/dev/null || [ ! -w "$unpacked" ]; then
  unpacked=${TMPDIR:-/tmp}/denoise-gpu-kit
  mkdir -p "$unpacked"
fi
mkdir -p "$unpacked/dawn/dist/linux-x64"
unpack "$here/deno" "$unpacked/deno"
unpack "$here/dawn.node" "$unpacked/dawn/dist/linux-x64/dawn.node"
chmod 755 "$unpacked/deno"

found=no
for file in /lib/libvulkan.so.1 /usr/lib/libvulkan.so.1 /lib64/libvulkan.so.1 /usr/lib64/libvulkan.so.1 \
  /usr/local/lib/libvulkan.so.1 /lib/*/libvulkan.so.1 /usr/lib/*/libvulkan.so.1; do
  if [ -e "$file" ]; then found=yes; fi
done
if [ "$found" = no ]; then export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; fi

# Containers often have NVIDIA's driver without the file that tells the loader of it.
if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}${VK_ADD_DRIVER_FILES:-}" ]; then
  found=no
  for file in /etc/vulkan/icd.d/*.json /usr/share/vulkan/icd.d/*.json /usr/local/share/vulkan/icd.d/*.json; do
    if [ -e "$file" ]; then found=yes; fi
  done
  if [ "$found" = no ]; then
    printf '{"file_format_version":"1.0.0","ICD":{"library_path":"libGLX_nvidia.so.0","api_version":"1.3.0"}}\n' \
      >"$unpacked/nvidia.json"
    export VK_DRIVER_FILES="$unpacked/nvidia.json"
  fi
fi

export DENOISE_DENO="$unpacked/deno" DENOISE_DAWN="$unpacked/dawn" DENO_DIR="$unpacked/cache"
export DENO_NO_UPDATE_CHECK=1 NO_COLOR=1
: "${DENO_WEBGPU_BACKEND:=vulkan}"
export DENO_WEBGPU_BACKEND
exec "$unpacked/deno" run -A --quiet --no-config --no-lock --no-check "$here/report.js" "$@"
