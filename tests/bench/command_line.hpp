// The command line of a bench in simulated time.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

namespace weir::bench {

class CommandLine : public CLI::App {
 public:
  /// `trace` gets an option, with the conversation trace as its default.
  CommandLine(const std::string& name, const std::string& description, std::string& trace)
      : CLI::App(description, name) {
    trace = WEIR_TEST_DATA "/traces/conv.csv";
    add("--trace", trace, "CSV of TIMESTAMP,ContextTokens,GeneratedTokens");
  }

  template <class Value>
  CLI::Option* add(const char* name, Value& value, const char* help) {
    return add_option(name, value, help)->capture_default_str();
  }
  template <class Value, class Bound>
  void add(const char* name, Value& value, const char* help, Bound least, Bound most) {
    add(name, value, help)->check(CLI::Range(least, most));
  }

  /// Reads the command line, and calls `run`. Returns the exit status.
  template <class Run>
  int run(int argc, char** argv, const Run& run) {
    CLI11_PARSE(*this, argc, argv);
    try {
      run();
      return 0;
    } catch (const std::exception& error) {
      std::cerr << get_name() << ": " << error.what() << "\n";
      return 1;
    }
  }
};

}  // namespace weir::bench
