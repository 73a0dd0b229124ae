#include "lab/experiment/run.hpp"

#include <chrono>
#include <stdexcept>

#include "lab/load/connection.hpp"

namespace weir::lab::experiment {
namespace {

double now() { return load::seconds_of(std::chrono::steady_clock::now()); }

}  // namespace

bool run(Table& table, const load::Interrupt& interrupt, const OnBegin& on_begin, const OnPointResult& on_result,
         const Measure& measure) {
  const std::vector<Point> points = table.points();
  for (const Point& point : points) {
    on_begin(point);
    Ran ran;
    const auto run_one = [&](const load::LoadSettings& settings, const load::OnResult& keep) {
      ran.begun = now();
      try {
        const load::Measured measured = measure(settings, interrupt, keep);
        ran.cut = measured.interrupted;
        ran.all = measured.report.all;
        ran.own_delay = load::too_slow(measured.own, measured.report.all);
      } catch (const std::runtime_error& problem) {
        ran.problem = problem.what();
      }
      ran.ended = now();
      return !ran.cut && ran.problem.empty();
    };
    if (!point.warm_up || run_one(*point.warm_up, {})) {
      run_one(point.load, [&](const load::Result& result) {
        ran.results.push_back(result);
        on_result(point, result);
      });
    }
    const bool ended = ran.cut || interrupt.seen();  // A short load ends before it looks.
    table.take(point, std::move(ran));
    if (ended) return false;
  }
  return true;
}

std::string as_text(const Report& report, bool coloured) {
  using metrics::compare::report::Style;
  std::string out = report.terminal.written(coloured ? Style::colour : Style::plain);
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
