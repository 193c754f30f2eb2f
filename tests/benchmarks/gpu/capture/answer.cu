extern "C" __global__ void store_answer(int *out) { *out = ANSWER; }
