#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

#include "config/secret.hpp"
#include "metrics/text.hpp"
#include "proxy/commands/client.hpp"
#include "proxy/commands/commands.hpp"

namespace weir::proxy::commands {
namespace {

std::string default_name(bool json) {
  auto now = metrics::timestamp(std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()), 0);
  std::erase_if(now, [](char letter) { return letter == '-' || letter == ':'; });
  return "weir-report-" + now + (json ? ".json" : ".html");
}

}  // namespace

int report(const ReportOptions& options) {
  return run_command("report", [&] {
    if (std::error_code error; std::filesystem::equivalent(options.output, options.admin.token_file, error))
      throw std::runtime_error("--output \"" + options.output +
                               "\" holds the token, which would be lost; name another file");
    const auto path = "/api/report?last=" + options.last + (options.json ? "&format=json" : "");
    const auto text = body_of(ask_admin(admin_at(options.admin), "GET", path));
    if (options.output == "-") {
      if (!options.json && ::isatty(STDOUT_FILENO) != 0)
        throw std::runtime_error("a page is nothing for a terminal; name a file: --output report.html");
      std::fwrite(text.data(), 1, text.size(), stdout);
      if (std::fflush(stdout) != 0) throw std::runtime_error("standard output takes no more");
      return 0;
    }
    const auto name = options.output.empty() ? default_name(options.json) : options.output;
    config::begin_private(name);
    std::ofstream out(name, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw std::runtime_error("cannot write \"" + name + "\"; name another file with --output");
    std::printf("%s\n", name.c_str());
    return 0;
  });
}

}  // namespace weir::proxy::commands
