#include "lab/experiment/report.hpp"

namespace weir::lab::experiment {

std::string as_text(const Report& report, bool coloured) {
  std::string out = coloured ? report.terminal.coloured() : report.terminal.plain();
  for (const chart::Figures& under : report.charts) {
    const chart::Chart* last = nullptr;
    for (const auto& one : under.charts) {
      if (const auto* drawn = std::get_if<chart::Chart>(&one)) last = drawn;
    }
    if (last) out += '\n' + chart::as_text(*last, coloured);
  }
  return out;
}

std::string at_once(std::uint64_t concurrency) { return std::to_string(concurrency) + " at once"; }

}  // namespace weir::lab::experiment
