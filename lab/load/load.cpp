#include "lab/load/load.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "lab/load/report.hpp"

namespace weir::lab::load {
namespace {

/// Writes to a file, to standard output for "-", or nowhere for "". Throws std::runtime_error if the file cannot be
/// opened.
class Sink {
 public:
  explicit Sink(const std::string& path) : to_stdout_(path == "-"), path_(path) {
    if (path.empty() || to_stdout_) return;
    file_.open(path, std::ios::trunc);
    if (!file_) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  }
  explicit operator bool() const { return to_stdout_ || file_.is_open(); }
  std::ostream& stream() { return to_stdout_ ? std::cout : file_; }
  bool flush() { return !stream().flush().fail(); }

 private:
  bool to_stdout_;
  std::string path_;
  std::ofstream file_;
};

}  // namespace

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
