// `weir compare`: reads request logs and says which of two configurations is better, and how sure that is.
#pragma once

#include <string>
#include <vector>

namespace weir::proxy::compare {

/// The options as the command line has them.
struct CompareOptions {
  std::vector<std::string> logs;
  std::string by = "config", sides = "compared";
  std::string a, b, pool, model, from, to, length, slo, config, floor, prompt_tokens;
  std::string warm_up = "10m";
  std::string html;                  ///< A file for the report as a page; "" is none.
  std::vector<std::string> costs;    ///< NAME=X
  std::vector<std::string> margins;  ///< NAME=SHARE
  double margin = 0.02;
  bool gate = false, json = false, markdown = false, details = false;
};

/// Prints the report. Returns the program's exit status: 0 whatever the verdict, 1 if a log cannot be read, 2 if the
/// options are wrong. With `gate` it is 0 if the gate passes, 3 if b is worse, and 4 if that is not
/// known yet; of several candidates together, 3 if one is worse, and else 4 if one is not known. Standard error says
/// why.
int run(const CompareOptions& options);

}  // namespace weir::proxy::compare
