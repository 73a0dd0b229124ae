#include <string>

#include "lab/commands/commands.hpp"
#include "lab/load/trace.hpp"
#include "lab/load/traces/mooncake_writer.hpp"
#include "lab/sink.hpp"
#include "lab/text.hpp"

namespace weir::lab::commands {
namespace {

struct ExportOptions {
  std::string log, format = "mooncake", to = "-";
};

int run_export(ExportOptions& options) {
  refuse_mixed({{"--to", options.to}}, {{"the log", options.log}});
  load::LogFacts facts;
  const auto trace = load::read_trace_file(options.log, 0, &facts);
  Sink to(options.to);
  load::traces::write_mooncake(to.stream(), trace);
  for (const std::string& said : {facts.left_out(), facts.warning()})
    if (!said.empty()) std::cerr << "weir-lab export: " << options.log << ": " << said << '\n';
  return said_unless(to.flush(), "weir-lab export") ? 0 : 1;
}

}  // namespace

void add_export_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("export", "Write a request log as a trace for AIPerf, vLLM's bench and other tools");
  const auto options = run_with_options(*command, status, &run_export);
  command->footer(
      "Lines have timestamp (ms), input_length, output_length and hash_ids, one for each 512 tokens of the prompt.\n"
      "Example: weir-lab export requests.jsonl --to trace.jsonl");
  command->add_option("log", options->log, "weir's request log, or another trace that `weir-lab load` reads")
      ->required()
      ->type_name("FILE");
  command->add_option("--format", options->format, "Format of the trace; mooncake is the only one")
      ->capture_default_str()
      ->check(CLI::IsMember({"mooncake"}));
  command->add_option("--to", options->to, "File for the trace; - = standard output")->capture_default_str();
}

}  // namespace weir::lab::commands
