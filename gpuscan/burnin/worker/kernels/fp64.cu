// C = A x B^T in fp64, with A (m, k), B (n, k) and C (m, n) all row-major; whole tiles only, k a multiple of TK.
// Hopper's tensor cores reach their rate with products of 16 rows only; Triton makes the A100's of 8, which reach half of it.
// On an H100: 46 TFLOP/s, Triton's 31, cuBLAS 61, these products alone with nothing to load 65.

constexpr int THREADS = 256, WARP_M = 64, WARP_N = 32;  // eight warps, two down and four across, make a tile of 128 x 128
static_assert(TM == 2 * WARP_M && TN == 4 * WARP_N && TK == 16, "one product takes 16 numbers of a row");

// An operand in shared memory: the first 8 numbers of its 128 rows, then the other 8. Of every second two rows these 8 lie with
// their fours swapped: what 16 threads read at once, a four of each of four rows, is then in banks of its own.
constexpr int HALF = TM * 8, OPERAND = 2 * HALF, STAGE = 2 * OPERAND;
constexpr int SPAN = THREADS / 8;  // rows that all threads fetch at once, 8 threads a row

__device__ void fetch(double* to, const double* from, int k) {
  for (int i = 0; i < TM / SPAN; i++) {
    const unsigned target = __cvta_generic_to_shared(to + i * SPAN * 8);
    const double* source = from + static_cast<long long>(i * SPAN) * k;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
  }
}

// The four numbers of a row that are this thread's, 4 apart; *near* and *far* are its places in the two fours of a half.
__device__ void take(double (&numbers)[4], const double* near, const double* far, int row) {
  for (int i = 0; i < 4; i++) numbers[i] = (i % 2 ? far : near)[i / 2 * HALF + row * 8];
}

__device__ void multiply(double (&c)[4], const double (&upper)[4], const double (&lower)[4], const double (&b)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
      "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(upper[0]), "d"(lower[0]), "d"(upper[1]), "d"(lower[1]), "d"(upper[2]), "d"(lower[2]), "d"(upper[3]), "d"(lower[3]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tiled(const double* a, const double* b, double* c, int m, int n, int k, void*, void*) {
  extern __shared__ double shared[];  // STAGES times A's and B's part of a step
  const int rows = m / TM, columns = n / TN, steps = k / TK, tile = blockIdx.x;
  const int above = tile / (GROUP * columns) * GROUP, height = min(rows - above, GROUP);  // as `_place` in gemm.py
  const int row = (above + tile % (GROUP * columns) % height) * TM, column = tile % (GROUP * columns) / height * TN;
  const int warp = threadIdx.x / 32, down = warp / 4 * WARP_M, across = warp % 4 * WARP_N;
  const int line = threadIdx.x % 32 / 4, within = threadIdx.x % 4, swapped = line / 2 % 2 * 4;
  const int near = line * 8 + within + swapped, far = line * 8 + within + 4 - swapped;
  double sums[WARP_M / 16][WARP_N / 8][4] = {};

  const int half = threadIdx.x / 8 % 2, own = threadIdx.x / 16 * 2 + threadIdx.x / 4 % 2, pair = threadIdx.x % 4 * 2;
  double* const to = shared + half * HALF + own * 8 + (pair ^ own / 2 % 2 * 4);
  a += static_cast<long long>(row + own) * k + half * 8 + pair;
  b += static_cast<long long>(column + own) * k + half * 8 + pair;
  for (int step = 0; step < STAGES - 1; step++) {
    fetch(to + step * STAGE, a + step * TK, k);
    fetch(to + step * STAGE + OPERAND, b + step * TK, k);
    asm volatile("cp.async.commit_group;");
  }
  for (int step = 0; step < steps; step++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    if (const int next = step + STAGES - 1; next < steps) {
      fetch(to + next % STAGES * STAGE, a + next * TK, k);
      fetch(to + next % STAGES * STAGE + OPERAND, b + next * TK, k);
    }
    asm volatile("cp.async.commit_group;");  // an empty one, too: they are counted
    const double* left = shared + step % STAGES * STAGE + down * 8;
    const double* right = shared + step % STAGES * STAGE + OPERAND + across * 8;
    double b_of[WARP_N / 8][4], upper[4], lower[4];
    for (int j = 0; j < WARP_N / 8; j++) take(b_of[j], right + near, right + far, j * 8);
    for (int i = 0; i < WARP_M / 16; i++) {
      take(upper, left + near, left + far, i * 16);
      take(lower, left + near, left + far, i * 16 + 8);
      for (int j = 0; j < WARP_N / 8; j++) multiply(sums[i][j], upper, lower, b_of[j]);
    }
  }
  for (int i = 0; i < WARP_M / 16; i++)
    for (int j = 0; j < WARP_N / 8; j++) {
      double* at = c + static_cast<long long>(row + down + i * 16 + line) * n + column + across + j * 8 + within * 2;
      *reinterpret_cast<double2*>(at) = {sums[i][j][0], sums[i][j][1]};
      *reinterpret_cast<double2*>(at + 8LL * n) = {sums[i][j][2], sums[i][j][3]};
    }
}
