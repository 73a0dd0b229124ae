#include "lab/report_table.hpp"

#include <algorithm>

#include "lab/text.hpp"

namespace weir::lab {

void print_reports(std::ostream& out, const std::vector<Observed>& runs) {
  int width = 8;
  for (const Observed& run : runs) width = std::max(width, static_cast<int>(run.who.size()));
  out << format("%-*s %9s %9s %9s %9s %9s %9s\n", width, "TTFT ms", "requests", "mean", "p50", "p95", "p99", "max");
  bool few = false;
  for (const Observed& run : runs) {
    out << format("%-*s %9llu", width, run.who.c_str(), static_cast<unsigned long long>(run.requests));
    if (!run.ttft) {
      out << format(" %9s %9s %9s %9s %9s\n", "-", "-", "-", "-", "-");
      continue;
    }
    few |= !run.ttft->p99;
    out << format(" %9.1f %9.1f %9.1f", 1e3 * run.ttft->mean, 1e3 * run.ttft->p50, 1e3 * run.ttft->p95)
        << (run.ttft->p99 ? format(" %9.1f", 1e3 * *run.ttft->p99) : format(" %9s", "-"))
        << format(" %9.1f\n", 1e3 * run.ttft->max);
  }
  if (few) out << "No p99 where fewer than 100 requests would stand behind it: read p95 and max.\n";
}

}  // namespace weir::lab
