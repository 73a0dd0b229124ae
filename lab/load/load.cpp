#include "lab/load/load.hpp"

#include <iostream>
#include <stdexcept>

#include "lab/load/report.hpp"
#include "lab/sink.hpp"

namespace weir::lab::load {

int run_load(const LoadSettings& settings, const LoadOutput& output) {
  try {
    Sink json(output.json), log(output.log);
    const Interrupt interrupt;
    const Measured measured = measure(settings, interrupt, [&log](const Result& result) {
      if (log) log.stream() << result_line(result) << '\n';
    });
    const Report& report = measured.report;
    if (json) json.stream() << boost::json::serialize(report.json()) << '\n';
    if (output.json != "-" && output.log != "-") report.all.print(std::cout, report.all.elapsed());
    const bool written = json.flush() && log.flush() && std::cout.flush();
    if (!written) std::cerr << "weir-lab load: a report or log could not be written whole; is the disk full?\n";
    return written && (report.all.ok() > 0 || report.all.failed() == 0) ? 0 : 1;
  } catch (const std::invalid_argument& e) {
    std::cerr << "weir-lab load: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "weir-lab load: " << e.what() << "\n";
    return 1;
  }
}

}  // namespace weir::lab::load
