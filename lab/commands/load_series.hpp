// The options of `weir-lab load` that make several loads of it: a sweep, several rates, or a search for peak users.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/load/load.hpp"

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

}  // namespace weir::lab::commands
