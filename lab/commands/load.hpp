// Commands that make several loads: the options of a series, and tables that are run.
//
// The options of `weir-lab load` that make several loads of it: a sweep, several rates, or a search for peak users.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lab/experiment/run.hpp"
#include "lab/load/load.hpp"
#include "lab/text.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace weir::lab::commands {

struct SeriesOptions {
  std::vector<std::uint64_t> concurrencies{5};
  std::uint64_t runs = 5;
  std::vector<std::uint64_t> users;
  std::vector<double> rates;
  double ramp = 10;
  double think = 0;
  std::string slo, html;
};

/// Adds --runs, --users, --ramp, --think, --slo and --html. --concurrency and --rate are there already.
void add_series_options(CLI::App& load, SeriesOptions& options);

/// Reads seconds as a number, or text such as "10m". Throws CLI::ValidationError with a sentence that names the option.
double read_seconds(const std::string& option, const std::string& text);

/// True if the options ask for more than one load.
bool is_series(const CLI::App& load, const SeriesOptions& options);

/// Returns the sentence about an option of `load` that was given and that a series has no use for; "" if there is none.
std::string refused_in_series(const CLI::App& load, const SeriesOptions& options);

/// Runs it and prints what was measured, also where the user ended it. Returns the exit status, as load::run_load does.
int run_series(const load::LoadSettings& settings, const load::LoadOutput& output, const SeriesOptions& options);

// Runs a table of an experiment and writes what it measured. `weir-lab load` and `weir-lab experiment` are such
// commands.

/// Files may be "-", which means standard output, in place of the table, or "", which means none.
struct Files {
  std::string json, log, html{}, markdown{}, csv{};
};

struct TableRun {
  std::string_view command;  ///< "weir-lab load"
  Files files;
  std::vector<NamedFile> inputs;  ///< What the command reads and may not write to.
  std::string label;              ///< The config in the log's lines, unless the rows have names.
  std::vector<std::string> rows;  ///< Their names, if they have any. A warning names the row then.
  bool ignore_eos = false;
  std::function<void(const std::string& what)> tell;
};

/// Runs what `table` makes, which is called when all files are open, and prints what was measured, also where the user
/// ended it. Returns the exit status: 0; 1 if something was not measured or a file could not be written whole. Throws
/// std::invalid_argument if a URL is wrong.
int run_table(const TableRun& asked, const std::function<std::unique_ptr<experiment::Table>()>& table);

}  // namespace weir::lab::commands
