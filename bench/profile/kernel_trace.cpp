// Which kernels a program ran on a GPU, and when: a library that the CUDA driver loads into it.
//
//   g++ -O2 -std=c++20 -fPIC -shared -I$CUDA_HOME/include -o kernel_trace.so bench/profile/kernel_trace.cpp -lcupti
//   CUDA_INJECTION64_PATH=$PWD/kernel_trace.so KERNEL_TRACE=/tmp/trace muster train …
//   python bench/profile/kernel_times.py /tmp/trace.PID
//
// Each process writes KERNEL_TRACE.PID, a line for each kernel, copy and fill: begin and end in nanoseconds, stream,
// grid, name. Kernels still run side by side, and what is measured is slowed down by one or two percent.
#include <cuda.h>
#include <cupti.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

std::FILE* trace = nullptr;
std::mutex mutex;

void give_room(std::uint8_t** room, std::size_t* bytes, std::size_t* most_records) {
  *bytes = 8 << 20;
  *room = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
  *most_records = 0;
}

void write_record(const CUpti_Activity* record) {
  const auto line = [](auto begin, auto end, auto stream, const std::string& grid, const char* name) {
    std::fprintf(trace, "%llu %llu %u %s %s\n", static_cast<unsigned long long>(begin),
                 static_cast<unsigned long long>(end), static_cast<unsigned>(stream), grid.c_str(), name);
  };
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    const std::string grid =
        std::to_string(kernel->gridX) + "." + std::to_string(kernel->gridY) + "." + std::to_string(kernel->gridZ);
    line(kernel->start, kernel->end, kernel->streamId, grid, kernel->name);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
    line(copy->start, copy->end, copy->streamId, std::to_string(copy->bytes), "copy");
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* fill = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    line(fill->start, fill->end, fill->streamId, std::to_string(fill->bytes), "fill");
  }
}

void take_records(CUcontext, std::uint32_t, std::uint8_t* room, std::size_t, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (bytes > 0 && cuptiActivityGetNextRecord(room, bytes, &record) == CUPTI_SUCCESS) write_record(record);
  std::free(room);
}

void finish() {
  cuptiActivityFlushAll(1);
  const std::lock_guard lock(mutex);
  std::fflush(trace);
}

}  // namespace

extern "C" int InitializeInjection() {
  const char* given = std::getenv("KERNEL_TRACE");
  trace = std::fopen(((given != nullptr ? given : "kernel_trace") + ("." + std::to_string(getpid()))).c_str(), "w");
  if (trace == nullptr) return 0;
  cuptiActivityRegisterCallbacks(give_room, take_records);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    cuptiActivityEnable(kind);
  cuptiActivityFlushPeriod(500);
  std::atexit(finish);
  return 1;
}
