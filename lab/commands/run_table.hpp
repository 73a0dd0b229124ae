// Runs a table of an experiment and writes what it measured. `weir-lab load` and `weir-lab experiment` are such
// commands.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lab/experiment/run.hpp"
#include "lab/sink.hpp"

namespace weir::lab::commands {

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
