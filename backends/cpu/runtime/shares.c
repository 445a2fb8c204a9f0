/* Combines the partial results of a task's shares of iterations, in order (shares.py). */
#include "runtime.h"

void qd_no_shares(double *shares, uint64_t count, double nothing) {
    for (uint64_t n = 0; n < count; n++)
        shares[n] = nothing;
}

double qd_sum_of_shares(const double *shares, uint64_t count) {
    double sum = -0.0;
    for (uint64_t n = 0; n < count; n++)
        sum += shares[n];
    return sum;
}

double qd_product_of_shares(const double *shares, uint64_t count) {
    double product = 1.0;
    for (uint64_t n = 0; n < count; n++)
        product *= shares[n];
    return product;
}
