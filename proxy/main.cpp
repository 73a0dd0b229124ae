// The command line of the program `weir`. The commands themselves are in proxy/serve, proxy/probe, proxy/compare,
// proxy/commands, proxy/keys, proxy/reference and proxy/top.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "config/address.hpp"
#include "config/command_line.hpp"
#include "config/keys.hpp"
#include "config/load.hpp"
#include "config/table_reader.hpp"
#include "config/values.hpp"
#include "metrics/text.hpp"
#include "proxy/commands/commands.hpp"
#include "proxy/compare/request.hpp"
#include "proxy/keys/client_keys.hpp"
#include "proxy/probe/probe.hpp"
#include "proxy/reference/reference.hpp"
#include "proxy/serve/server.hpp"
#include "proxy/serve/start.hpp"
#include "proxy/top/top.hpp"

/// jemalloc reads it at the start; MALLOC_CONF of the environment has precedence. One arena and small caches of threads
/// keep memory at rest within a tenth of glibc's (docs/benchmarks.md). A thread of jemalloc gives memory back in the
/// second after a burst; without it, only later requests would.
extern "C" const char* const malloc_conf =
    "narenas:1,lg_tcache_max:12,tcache_nslots_small_max:40,tcache_nslots_large:4,"
    "background_thread:true,dirty_decay_ms:1000";

namespace {

/// weir does not outlive an allocation that fails: limits.buffer_memory bounds what clients and replicas make it hold.
[[noreturn]] void end_without_memory() {
  std::fputs("weir: the system gives no more memory; lower limits.buffer_memory, or give weir more\n", stderr);
  std::abort();
}

namespace config = weir::config;
namespace commands = weir::proxy::commands;
using config::wrong_usage;
using weir::metrics::counted;

/// Addresses that the command line gives in place of the file's, so that two instances can share one.
struct Overrides {
  std::optional<config::ListenAddress> metrics, admin;

  config::LoadResult load(const std::string& file) const {
    auto loaded = config::load_file(file);
    if (auto* settings = std::get_if<config::Settings>(&loaded)) {
      const auto put = [&](const auto& given, auto& listen, const char* key) {
        if (!given) return;
        listen = given;
        settings->overridden.emplace_back(key);
      };
      put(metrics, settings->metrics.listen, "metrics.listen");
      put(admin, settings->admin.listen, "admin.listen");
      if (admin && !config::is_local(*admin) && settings->admin.token.empty())
        return std::vector{config::SettingsError{
            "--admin-listen", 0, 0, config::to_text(*admin) + " " + std::string(config::admin_needs_a_token)}};
    }
    return loaded;
  }
};

/// Returns the settings, or nothing after every error has been printed.
std::optional<config::Settings> usable(config::LoadResult loaded) {
  if (auto* settings = std::get_if<config::Settings>(&loaded)) return std::move(*settings);
  for (const auto& error : std::get<std::vector<config::SettingsError>>(loaded))
    std::fprintf(stderr, "%s\n", error.text().c_str());
  return std::nullopt;
}

int serve(const std::string& file, const Overrides& overrides) {
  const auto settings = usable(overrides.load(file));
  if (!settings) return wrong_usage;
  weir::proxy::serve::set_up_log(settings->log);
  return weir::proxy::serve::serve(
      *settings, [=] { return overrides.load(file); },
      [=](const auto& table, auto key, auto problem) { return config::blame(file, table, key, problem); },
      WEIR_VERSION);
}

struct CheckOptions {
  std::string file;
  commands::AdminOptions against{""};
  bool probing = false;
  weir::proxy::probe::ProbeOptions probe;
};

/// Checks the settings. Without `probing` no replica is asked.
int check(const CheckOptions& options) {
  const auto settings = usable(config::load_file(options.file));
  if (!settings) return wrong_usage;
  if (options.probing) return weir::proxy::probe::probe(*settings, options.probe);
  if (!options.against.address.empty()) return commands::show_difference(*settings, options.file, options.against);
  std::size_t replicas = 0;
  for (const auto& pool : settings->pools) replicas += pool.replicas.size();
  std::printf("%s: fine: %s, %s\n", options.file.c_str(), counted(settings->pools.size(), "pool").c_str(),
              counted(replicas, "replica").c_str());
  for (const auto& line : config::exposed_secrets(settings->secret_files))
    std::fprintf(stderr, "warning: %s\n", line.c_str());
  for (const auto& line : weir::proxy::serve::shadow_lines(*settings)) std::printf("%s\n", line.c_str());
  return 0;
}

/// Lets an option take an address to listen on.
void add_address(CLI::App& command, const std::string& name, std::optional<config::ListenAddress>& address,
                 const std::string& what) {
  const auto read = [&address](const std::string& text) {
    auto parsed = config::parse_address(text);
    if (const auto* problem = std::get_if<config::Problem>(&parsed)) throw CLI::ValidationError(text, problem->text);
    address = std::get<config::ListenAddress>(parsed);
  };
  command.add_option_function<std::string>(name, read, what)->type_name("ADDRESS");
}

void add_token_file(CLI::App& command, commands::AdminOptions& admin) {
  command
      .add_option("--token-file", admin.token_file,
                  "File whose first line is the token of the [admin] listener; without it the environment's "
                  "WEIR_ADMIN_TOKEN")
      ->type_name("FILE");
}

void add_admin(CLI::App& command, commands::AdminOptions& admin) {
  command.add_option("--admin", admin.address, "Address of the running weir's [admin] listener, or unix:PATH")
      ->type_name("ADDRESS")
      ->capture_default_str();
  add_token_file(command, admin);
}

CLI::App* add_serve(CLI::App& app, std::string& file, Overrides& overrides) {
  auto* command = app.add_subcommand("serve", "Serve requests until a signal ends weir");
  command
      ->add_option("-c,--config", file,
                   "Settings file (TOML); docs/reference/settings.md is the "
                   "reference")
      ->required();
  add_address(*command, "--metrics-listen", overrides.metrics, "Replaces [metrics] listen of the file");
  add_address(*command, "--admin-listen", overrides.admin, "Replaces [admin] listen of the file");
  command->footer(
      "Examples:\n"
      "  weir serve --config weir.toml\n"
      "  kill -HUP PID   reloads the settings, as weir reload does; wrong settings change nothing\n"
      "  kill -TERM PID  drains: streams under way finish, then weir ends with status 0");
  return command;
}

CLI::App* add_check(CLI::App& app, CheckOptions& options, double& timeout) {
  auto* command = app.add_subcommand("check", "Check a settings file, and print every error");
  command->add_option("-c,--config", options.file, "Settings file (TOML)")->required();
  auto* probe = command->add_flag(
      "--probe", options.probing,
      "Ask each replica what it is and reports, measure a short stream on it, and print what to switch on");
  command->add_option("--timeout", timeout, "With --probe: the longest time of a stream, in seconds")
      ->needs(probe)
      ->check(config::within(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--json", options.probe.json, "With --probe: print a line of JSON for each replica")->needs(probe);
  command
      ->add_option("--diff", options.against.address,
                   "Print what a reload would change from an older file, or from the weir at this admin address")
      ->excludes(probe);
  add_token_file(*command, options.against);
  command->footer(
      "Examples:\n"
      "  weir check --config weir.toml\n"
      "  weir check --config weir.toml --diff 127.0.0.1:9091\n"
      "  weir check --config weir.toml --diff weir.toml.old\n"
      "  weir check --config weir.toml --probe --timeout 120\n"
      "  weir check --config weir.toml --probe --json | jq .\n\n"
      "With --probe, exit status 1 if a replica could not be reached or measured: docs/guides/first-steps.md.\n"
      "With --diff, exit status 1 if a reload would fail.");
  return command;
}

/// Adds the options that say which requests are compared.
void add_requests(CLI::App* command, weir::proxy::compare::CompareOptions& options) {
  command->add_option("logs", options.logs, "Request logs, plain or gzip; - is standard input")->type_name("FILE");
  command->add_option("--by", options.by, "What a side is: a configuration, a replica or a role")
      ->check(CLI::IsMember({"config", "replica", "role"}))
      ->capture_default_str();
  command->add_option("--a", options.a, "The side to compare with, such as the version in use")->type_name("NAME");
  command->add_option("--b", options.b, "The side that gets the verdict, such as the new version")->type_name("NAME");
  command->add_option("--pool", options.pool, "Only requests of this pool")->type_name("NAME");
  command->add_option("--model", options.model, "Only requests for this model")->type_name("NAME");
  command->add_option("--prompt-tokens", options.prompt_tokens, "Only requests whose prompt has LOW to HIGH tokens")
      ->type_name("LOW-HIGH");
  command
      ->add_option("--from", options.from,
                   "Start of the window: a moment, or a time before the last request, such as 2h")
      ->type_name("TIME");
  command->add_option("--to", options.to, "End of the window")->type_name("TIME");
  command->add_option("--for", options.length, "Length of the window")->type_name("TIME");
}

CLI::App* add_compare(CLI::App& app, weir::proxy::compare::CompareOptions& options) {
  auto* command = app.add_subcommand("compare", "Compare two configurations by request logs, and print a verdict");
  add_requests(command, options);
  command
      ->add_option("--slo", options.slo,
                   "Objective: an [[slo]] of --config, or thresholds such as ttft_client=1,tpot=0.05")
      ->type_name("NAME");
  command->add_option("-c,--config", options.config, "Settings file: for --slo NAME, cost_per_hour and kv_tokens");
  command->add_option("--margin", options.margin, "The largest difference that does not matter, as a share")
      ->type_name("SHARE")
      ->capture_default_str();
  command
      ->add_option(
          "--floor", options.floor,
          "Log of a twin with the primary's configuration, eight hours or more: its drifts are the least error")
      ->type_name("FILE");
  command->add_option("--cost", options.costs, "Cost of an hour: of a replica, or of each replica of a configuration")
      ->type_name("NAME=X")
      ->allow_extra_args(false);
  command->add_option("--warm-up", options.warm_up, "Time after a shadow's first request in which no pair counts")
      ->type_name("TIME")
      ->capture_default_str();
  command->add_option("--sides", options.sides, "Sides to print: the two compared ones, or all")
      ->check(CLI::IsMember({"compared", "all"}))
      ->capture_default_str();
  command->add_flag("--details", options.details, "Print the whole report, and not only conclusion and verdicts");
  auto* json = command->add_flag("--json", options.json, "Print JSON, as GET /api/compare has it");
  command->add_flag("--markdown", options.markdown, "Print Markdown")->excludes(json);
  command->add_option("--html", options.html, "Also write the report to this file, as a page with charts")
      ->type_name("FILE");
  command
      ->add_option("--margins", options.margins,
                   "How much worse b may be and still be not_worse: "
                   "ttft=10%,tpot=5%,e2e=10%,output_tokens=10%,misses=0.2%,errors=0.2%")
      ->delimiter(',')
      ->type_name("NAME=SHARE")
      ->allow_extra_args(false);
  command->add_flag("--gate", options.gate, "Exit status 0 if b may be promoted, 3 if b is worse, 4 if not yet known");
  command->footer(
      "Examples:\n"
      "  weir compare requests.jsonl --slo ttft_client=1,tpot=0.05\n"
      "  weir compare requests.jsonl.1.gz requests.jsonl --a vllm-fp16 --b vllm-fp8 --from 2h\n"
      "  weir compare requests.jsonl --by role --floor floor.jsonl --json | jq .verdicts\n"
      "  weir compare requests.jsonl --html report.html     one file with charts, for any browser\n"
      "  weir compare requests.jsonl --gate\n\n"
      "The exit status is 0 whatever the verdict, unless --gate says otherwise:\n"
      "docs/explain/verdicts.md.");
  return command;
}

CLI::App* add_status(CLI::App& app, weir::proxy::top::TopOptions& options) {
  auto* command = app.add_subcommand("status", "Print the state of a running weir, as weir top --once does");
  add_admin(*command, options.admin);
  command->add_flag("--json", options.json, "Print JSON, as GET /api/live has it");
  command->footer(
      "Examples:\n"
      "  weir status\n"
      "  weir status --admin 127.0.0.2:9091 --json | jq .\n"
      "  weir status --admin unix:/run/weir/admin.sock\n"
      "  weir status --admin 10.0.0.5:9091 --token-file ~/.weir-token");
  return command;
}

CLI::App* add_top(CLI::App& app, weir::proxy::top::TopOptions& options) {
  auto* command = app.add_subcommand("top", "Watch a running weir in the terminal: what is wrong, and where");
  add_admin(*command, options.admin);
  auto* once = command->add_flag("--once", options.once,
                                 "Print the state once and end; the default where standard output is no terminal");
  command->add_flag("--json", options.json, "With --once: print JSON, as GET /api/live has it")->needs(once);
  command->footer(
      "Examples:\n"
      "  weir top\n"
      "  weir top --once\n"
      "  weir top --once --json | jq .findings\n"
      "  weir top --admin unix:/run/weir/admin.sock\n"
      "  weir top --admin 10.0.0.5:9091 --token-file ~/.weir-token\n\n"
      "q ends it, ? shows the keys: docs/guides/monitoring.md. NO_COLOR in the environment turns "
      "colours off.");
  return command;
}

CLI::App* add_report(CLI::App& app, commands::ReportOptions& options) {
  auto* command = app.add_subcommand("report", "Write the last minutes of a running weir into one page");
  add_admin(*command, options.admin);
  command->add_option("--last", options.last, "How far to look back, 15m at most")
      ->type_name("TIME")
      ->capture_default_str();
  command
      ->add_option("-o,--output", options.output,
                   "File to write, or - for standard output; default weir-report-TIME.html")
      ->type_name("FILE");
  command->add_flag("--json", options.json, "Write the data as JSON, as GET /api/report?format=json has it");
  command->footer(
      "Examples:\n"
      "  weir report\n"
      "  weir report --last 5m --output incident.html\n"
      "  weir report --json --output - | jq .live.findings\n\n"
      "The page holds charts, events, findings, the slowest and the failed requests, the settings without secrets,\n"
      "and the machine; it needs no network. It has request ids and names of clients' keys, and no prompt or answer.\n"
      "weir also writes reports by itself, into the folder [admin] reports, when a pool has no replica left.");
  return command;
}

CLI::App* add_drain(CLI::App& app, commands::DrainOptions& options) {
  auto* command = app.add_subcommand("drain", "Take a replica out: no new requests, and those under way finish");
  command->add_option("replica", options.replica, "Name of the replica in the settings")->required();
  command->add_flag("--wait", options.wait, "Wait until the replica has no request left");
  command->add_flag("--force", options.force, "Drain the replica even if it is the last of its pool that is up");
  add_admin(*command, options.admin);
  command->footer(
      "Examples:\n"
      "  weir drain gpu0 --wait && systemctl restart vllm && weir undrain gpu0 --wait\n\n"
      "weir cuts requests that have not finished after limits.drain. A drain outlasts reloads, and ends with weir.");
  return command;
}

CLI::App* add_undrain(CLI::App& app, commands::DrainOptions& options) {
  auto* command = app.add_subcommand("undrain", "Give a drained or ejected replica requests again");
  command->add_option("replica", options.replica, "Name of the replica in the settings")->required();
  const auto wait = [&options](const std::string& seconds) {
    options.wait = true;
    if (seconds.empty()) return;
    auto parsed = config::parse_duration(seconds);
    if (!parsed) parsed = config::parse_duration(seconds + "s");
    if (!parsed || parsed->count() <= 0)
      throw CLI::ValidationError("--wait", "\"" + seconds +
                                               "\" is no time; behind --wait stands nothing or a time such as 60: weir "
                                               "undrain NAME --wait 60");
    options.wait_at_most = *parsed;
  };
  command
      ->add_option_function<std::string>(
          "--wait", wait, "Wait until the replica takes requests, at most TIME (300 s); else exit status 1")
      ->expected(0, 1)
      ->type_name("[TIME]");
  add_admin(*command, options.admin);
  command->footer(
      "Examples:\n"
      "  weir undrain gpu0\n"
      "  weir undrain gpu0 --wait 60     for scripts: the next replica may be drained when it returns 0\n\n"
      "An ejected replica comes back on probation. A replica that is down takes requests when its probes pass.");
  return command;
}

CLI::App* add_reload(CLI::App& app, commands::ReloadOptions& options) {
  auto* command = app.add_subcommand("reload", "Make a running weir reload its settings, and print what changed");
  auto* address =
      command
          ->add_option("--admin", options.admin.address, "Address of the running weir's [admin] listener, or unix:PATH")
          ->type_name("ADDRESS")
          ->capture_default_str();
  add_token_file(*command, options.admin);
  command->add_option("-c,--config", options.file,
                      "Settings file (TOML): checked first, and read for the address and token of [admin]");
  command->add_option("--pid", options.pid, "Process of the running weir: gets HUP if no [admin] listener answers")
      ->check(config::positive());
  command->parse_complete_callback([&options, address] { options.admin_given = address->count() > 0; });
  command->footer(
      "Examples:\n"
      "  weir reload\n"
      "  weir reload --admin unix:/run/weir/admin.sock\n"
      "  weir reload --config /etc/weir/weir.toml --pid PID     as the systemd unit does\n\n"
      "Exit status: 0 reloaded, 1 refused, failed or unanswered, 2 wrong usage or settings. After a HUP the\n"
      "status is 0 at once, and weir's log says how the reload ended.");
  return command;
}

struct KeyCommands {
  CLI::App *make, *hash;
};

KeyCommands add_key(CLI::App& app, weir::proxy::keys::NewKey& wanted) {
  auto* command = app.add_subcommand("key", "Make keys for clients (server.api_keys)");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  weir key new alice\n"
      "  weir key hash < alice.key");
  auto* make =
      command->add_subcommand("new", "Make a key, print it once, and print or append its lines for the file of keys");
  make->add_option("name", wanted.name, "Name of the client in the log")->required();
  make->add_option("--models", wanted.models, "Models that the key may use; default all")
      ->delimiter(',')
      ->type_name("WORDS")
      ->allow_extra_args(false);
  make->add_option("--max-in-flight", wanted.max_in_flight, "Most requests of this key at a time");
  make->add_option("--share", wanted.share, "Share of the queue's turns, 0.1 to 10; the default of a key is 1");
  make->add_option("--append", wanted.append_to, "Append the lines to this file; weir creates a missing file")
      ->type_name("FILE");
  make->footer(
      "Examples:\n"
      "  weir key new alice\n"
      "  weir key new batch --models llama-3-8b --max-in-flight 32 --share 0.5 --append keys.toml\n"
      "  weir key new alice-2 --append keys.toml && weir reload\n\n"
      "The key goes to standard output, all else to standard error: docs/guides/keys.md.");
  auto* hash = command->add_subcommand("hash", "Read a key from standard input and print its SHA-256");
  hash->footer("Examples:\n  weir key hash < alice.key");
  return {make, hash};
}

CLI::App* add_bypass(CLI::App& app, std::string& state, commands::AdminOptions& admin) {
  auto* command = app.add_subcommand("bypass", "In an emergency: relay requests and answers without reading them");
  command->add_option("state", state, "on or off")->required()->check(CLI::IsMember({"on", "off"}));
  add_admin(*command, admin);
  command->footer(
      "Examples:\n"
      "  weir bypass on     new requests are relayed byte by byte; requests under way go on as they began\n"
      "  weir bypass off\n\n"
      "Requests are still balanced, retried and counted by outcome; TTFT, ITL and tokens are not measured, and no "
      "request is mirrored. The bypass outlasts reloads, and ends with weir. weir_bypass on /metrics shows it.");
  return command;
}

CLI::App* add_rollout(CLI::App& app, commands::RolloutOptions& options) {
  auto* command = app.add_subcommand("rollout", "Give a candidate a growing share of a pool's requests");
  command->add_option("action", options.action, "start, status, pause, promote or abort")
      ->required()
      ->check(CLI::IsMember({"start", "status", "pause", "promote", "abort"}));
  command->add_option("name", options.name, "Name of the rollout in the settings; not needed if there is one rollout");
  command->add_flag("--json", options.json, "With status: print JSON, as GET /api/rollout has it");
  command->add_option("--to", options.to, "With promote: the step to go to, such as 25%; default the next step");
  add_admin(*command, options.admin);
  command->footer(
      "Examples:\n"
      "  weir rollout start fp8     starts with the first step, or resumes after a pause\n"
      "  weir rollout status\n"
      "  weir rollout pause fp8     keeps the share that the candidate has\n"
      "  weir rollout promote fp8   takes the next step now, whatever the gate says\n"
      "  weir rollout promote fp8 --to 25%   skips the steps before 25%\n"
      "  weir rollout abort fp8     the candidate gets no more requests, at once\n\n"
      "A rollout rolls back by itself when the candidate is worse, fails or is out; its state outlasts\n"
      "reloads and restarts: docs/guides/rollout.md.");
  return command;
}

CLI::App* add_reference(CLI::App& app, std::string& what) {
  auto* command = app.add_subcommand("reference",
                                     "Look up a key, a series or a field, or print a page of the "
                                     "reference");
  command
      ->add_option("what", what,
                   "A part of a name, or a page: settings, metrics, request-log, api, schema-log or schema-live")
      ->required();
  command->footer(
      "Examples:\n"
      "  weir reference first_token      keys, series and fields that have it in their names\n"
      "  weir reference settings         every key, as docs/reference/settings.md has it\n"
      "  weir reference schema-log       the JSON schema of a line of the request log");
  return command;
}

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(end_without_memory);
  CLI::App app(
      "weir: a reverse proxy and load balancer for LLM inference replicas, which measures every answer on its way",
      "weir");
  app.set_version_flag("--version", std::string("weir ") + WEIR_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  weir check --config weir.toml          prints every error of the file\n"
      "  weir check --config weir.toml --probe  also asks each replica what it reports\n"
      "  weir serve --config weir.toml          clients: 127.0.0.1:8080, metrics: 127.0.0.1:9090/metrics\n"
      "  weir compare requests.jsonl            prints which configuration is better, and how sure that is\n"
      "  weir status                            prints the state of the weir on this machine\n"
      "  weir top                               watches that weir in the terminal\n"
      "  weir report                            writes its last 15 minutes into a page\n"
      "  weir reload                            reloads the settings, and prints what changed\n"
      "  weir key new alice                     makes a key for a client\n\n"
      "Exit status: 0 fine, 1 failed, 2 wrong usage or settings.\n"
      "Signals: TERM and INT drain, then stop; a second one stops at once. HUP reloads the settings. USR1 opens the "
      "request log anew.");
  std::string file, bypass_state;
  commands::AdminOptions admin;
  Overrides overrides;
  CheckOptions checking;
  weir::proxy::compare::CompareOptions comparing;
  commands::DrainOptions draining;
  commands::ReloadOptions reloading;
  commands::RolloutOptions rolling_out;
  double timeout = checking.probe.timeout.count();
  weir::proxy::top::TopOptions watching, asking;
  commands::ReportOptions reporting;
  const auto* const serve_command = add_serve(app, file, overrides);
  std::string looked_up;
  weir::proxy::keys::NewKey new_key;
  const std::pair<const CLI::App*, std::function<int()>> others[] = {
      {add_check(app, checking, timeout), [&] { return check(checking); }},
      {add_compare(app, comparing), [&] { return weir::proxy::compare::run(comparing); }},
      {add_status(app, asking), [&] { return weir::proxy::top::status(asking); }},
      {add_top(app, watching), [&] { return weir::proxy::top::top(watching); }},
      {add_report(app, reporting), [&] { return commands::report(reporting); }},
      {add_drain(app, draining), [&] { return commands::drain(draining); }},
      {add_undrain(app, draining), [&] { return commands::undrain(draining); }},
      {add_reload(app, reloading), [&] { return commands::reload(reloading); }},
      {add_bypass(app, bypass_state, admin), [&] { return commands::bypass(admin, bypass_state == "on"); }},
      {add_rollout(app, rolling_out), [&] { return commands::rollout(rolling_out); }},
      {add_reference(app, looked_up), [&] { return weir::proxy::reference::print_reference(looked_up); }},
  };
  const auto key_commands = add_key(app, new_key);
  if (const auto status = config::parse_command_line(app, argc, argv)) return *status;
  checking.probe.timeout = std::chrono::duration<double>(timeout);
  if (serve_command->parsed()) return serve(file, overrides);
  const auto* const wanted = std::ranges::find_if(others, [](const auto& one) { return one.first->parsed(); });
  if (wanted != std::end(others)) return config::after_output(wanted->second());
  return config::after_output(key_commands.make->parsed() ? weir::proxy::keys::make_key(new_key)
                                                          : weir::proxy::keys::print_hash());
}
