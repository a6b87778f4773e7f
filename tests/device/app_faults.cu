// Four ways in which a program, not a card, is at fault; each leaves its Xid in the kernel log.
// Build with nvcc, run as: app_faults illegal-address | trap | shared-out-of-range | misaligned
#include <cstdio>
#include <cstring>

__global__ void illegal_address() { *reinterpret_cast<int *>(0xdead0000ull) = 1; }

__global__ void trap() { asm volatile("trap;"); }

__global__ void shared_out_of_range(unsigned offset) {
    extern __shared__ int small[];
    reinterpret_cast<volatile int *>(small)[offset] = 1;
}

__global__ void misaligned(char *place) { *reinterpret_cast<volatile int *>(place + 1) = 1; }

int main(int count, char **words) {
    const char *fault = count > 1 ? words[1] : "";
    char *place = nullptr;
    if (cudaMalloc(&place, 4096) != cudaSuccess) {
        return 2;
    }
    if (!strcmp(fault, "illegal-address")) {
        illegal_address<<<1, 1>>>();
    } else if (!strcmp(fault, "trap")) {
        trap<<<1, 1>>>();
    } else if (!strcmp(fault, "shared-out-of-range")) {
        shared_out_of_range<<<1, 1, 64>>>(1u << 24);
    } else if (!strcmp(fault, "misaligned")) {
        misaligned<<<1, 1>>>(place);
    } else {
        fprintf(stderr, "which fault?\n");
        return 2;
    }
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s: %s\n", fault, cudaGetErrorString(error));
    return error == cudaSuccess ? 1 : 0;
}
