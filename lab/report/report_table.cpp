#include "lab/report/report_table.hpp"

#include <algorithm>
#include <cmath>

#include "lab/text.hpp"

namespace weir::lab::report {
namespace {

/// Prints "p99 against round_robin: least_requests -31 %, least_queued_tokens -52 %."
void print_tails(std::ostream& out, const std::vector<Observed>& runs) {
  std::size_t fewest = runs.front().ttft ? runs.front().ttft->count : 0;
  for (const Observed& run : runs) fewest = std::min(fewest, run.ttft ? run.ttft->count : 0);
  if (runs.size() < 2 || fewest == 0) return;
  const bool p99 = std::ranges::all_of(runs, [](const Observed& run) { return run.ttft->p99.has_value(); });
  const auto tail = [p99](const Observed& run) { return p99 ? *run.ttft->p99 : run.ttft->p95; };
  out << (p99 ? "p99" : "p95") << " against " << runs.front().who << ":";
  for (std::size_t i = 1; i < runs.size(); ++i) {
    out << (i > 1 ? ", " : " ") << runs[i].who << format(" %+.0f %%", 100 * (tail(runs[i]) / tail(runs.front()) - 1));
  }
  const auto slowest = static_cast<unsigned long long>(std::ceil(static_cast<double>(fewest) * (p99 ? 0.01 : 0.05)));
  out << format(". One run; behind each %s stand the %llu slowest of %zu requests.\n", p99 ? "p99" : "p95", slowest,
                fewest);
}

}  // namespace

void print_reports(std::ostream& out, const std::vector<Observed>& runs) {
  int width = 8;
  for (const Observed& run : runs) width = std::max(width, static_cast<int>(run.who.size()));
  out << format("%-*s %9s %9s %9s %9s %9s %9s\n", width, "TTFT ms", "requests", "mean", "p50", "p95", "p99", "max");
  for (const Observed& run : runs) {
    out << format("%-*s %9llu", width, run.who.c_str(), static_cast<unsigned long long>(run.requests));
    if (!run.ttft) {
      out << format(" %9s %9s %9s %9s %9s\n", "-", "-", "-", "-", "-");
      continue;
    }
    out << format(" %9.1f %9.1f %9.1f", 1e3 * run.ttft->mean, 1e3 * run.ttft->p50, 1e3 * run.ttft->p95)
        << (run.ttft->p99 ? format(" %9.1f", 1e3 * *run.ttft->p99) : format(" %9s", "-"))
        << format(" %9.1f\n", 1e3 * run.ttft->max);
  }
  if (!runs.empty()) print_tails(out, runs);
}

}  // namespace weir::lab::report
