#include "tests/integration/peers/weir_under_test.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

void write_keys(std::ostream& out, Keys defaults, const Keys& wanted, std::string_view indent = "") {
  for (const auto& [key, value] : wanted) defaults[key] = value;
  for (const auto& [key, value] : defaults) out << indent << key << " = " << value << '\n';
}

constexpr std::array<std::string_view, 4> ledger_gauges{"weir_queued_tokens", "weir_resident_tokens",
                                                        "weir_requests_in_flight", "weir_oldest_unanswered_seconds"};

}  // namespace

WeirSettings pool_of(std::initializer_list<const ScriptedReplica*> replicas) {
  PoolKeys pool{.name = "chat", .replicas = {}};
  for (const auto* replica : replicas)
    pool.replicas.push_back({.name = "r" + std::to_string(pool.replicas.size()), .url = replica->url()});
  return {.pools = {pool}};
}

std::string WeirUnderTest::text(const WeirSettings& settings, std::uint16_t port, std::uint16_t metrics_port,
                                const std::filesystem::path& log) {
  std::ostringstream out;
  out << "[server]\n";
  write_keys(out, {{"listen", "[" + quoted(at_loopback(port)) + "]"}, {"threads", "2"}}, settings.server);
  out << "[metrics]\n";
  write_keys(out, {{"listen", quoted(at_loopback(metrics_port))}}, settings.metrics);
  out << "[admin]\n";
  write_keys(out, {{"listen", "\"\""}}, settings.admin);
  out << "[log]\n";
  write_keys(out, {{"requests", quoted(log.string())}}, settings.log);
  out << "[limits]\n";
  write_keys(out, {{"drain_delay", "0"}, {"drain", "5"}}, settings.limits);
  out << "[measure]\n";
  write_keys(out, {}, settings.measure);
  out << "[health]\n";
  write_keys(out, {}, settings.health);
  out << "[engine]\n";
  write_keys(out, {}, settings.engine);
  out << "[discovery]\n";
  write_keys(out, {}, settings.discovery);
  for (const auto& slo : settings.slos) {
    out << "[[slo]]\n";
    write_keys(out, {}, slo);
  }
  for (const auto& pool : settings.pools) {
    out << "[[pool]]\n";
    write_keys(out, {{"name", quoted(pool.name)}, {"models", "[\"m\"]"}, {"queue", "0"}}, pool.more);
    for (const auto& replica : pool.replicas) {
      out << "  [[pool.replica]]\n";
      write_keys(out, {{"name", quoted(replica.name)}, {"url", quoted(replica.url)}}, replica.more, "  ");
    }
  }
  for (const auto& shadow : settings.shadows) {
    out << "[[shadow]]\n";
    write_keys(out, {{"name", quoted(shadow.name)}, {"of", quoted("chat")}}, shadow.more);
    for (const auto& replica : shadow.replicas) {
      out << "  [[shadow.replica]]\n";
      write_keys(out, {{"name", quoted(replica.name)}, {"url", quoted(replica.url)}}, replica.more, "  ");
    }
  }
  return out.str();
}

std::string weir_program() {
  const char* const other = std::getenv("WEIR_PROGRAM");
  return other != nullptr ? other : WEIR_PROGRAM;
}

void WeirUnderTest::rewrite(const WeirSettings& settings) const {
  write_file(settings_file(), text(settings, port_, metrics_port_, log_file()));
}

WeirUnderTest::WeirUnderTest(const WeirSettings& settings, const std::vector<std::string>& through)
    : port_(free_port()),
      metrics_port_(free_port()),
      process_(
          [&]() -> std::vector<std::string> {
            rewrite(settings);
            auto command = through;
            for (const auto& word : {weir_program(), std::string("serve"), std::string("--config")})
              command.push_back(word);
            command.push_back(settings_file().string());
            return command;
          }(),
          directory_.path() / "output") {
  wait_until_ready();
}

void WeirUnderTest::wait_until_ready() {
  look_until("weir to be ready; it said: " + output(), [this] {
    if (process_.wait(std::chrono::milliseconds(0))) {
      stopped_ = true;
      throw std::runtime_error("weir ended while starting and said: " + output());
    }
    try {
      const auto ready = fetch(metrics_port_, get("/-/ready"), "GET");
      return ready.status == 200 || ready.body == "not ready: no replica is up\n";
    } catch (const PeerGone&) {
      return false;
    }
  });
}

WeirUnderTest::~WeirUnderTest() {
  if (!stopped_) stop();
  if (::testing::Test::HasFailure()) std::cerr << "weir said:\n" << output() << '\n';
}

void WeirUnderTest::stop() {
  process_.send(SIGTERM);
  ends();
}

void WeirUnderTest::ends() {
  stopped_ = true;
  const auto exit = process_.wait(patience);
  if (!exit) {
    ADD_FAILURE() << "weir does not end after TERM";
    return;
  }
  EXPECT_EQ(exit->signal, 0) << "weir was ended by a signal";
  EXPECT_EQ(exit->code, 0) << "exit code of weir";
}

void WeirUnderTest::wait_until_said(const std::string& words, std::size_t times) const {
  look_until("weir to say '" + words + "'", [&] {
    const auto said = output();
    std::size_t found = 0;
    for (auto at = said.find(words); at != said.npos; at = said.find(words, at + 1)) ++found;
    return found >= times;
  });
}

MetricsPage WeirUnderTest::metrics() const {
  const auto page = fetch(metrics_port_, get("/metrics"), "GET");
  if (page.status != 200) throw std::runtime_error("/metrics answers " + std::to_string(page.status));
  return MetricsPage(page.body);
}

MetricsPage WeirUnderTest::metrics_when(const std::string& what,
                                        const std::function<bool(const MetricsPage&)>& wanted) const {
  MetricsPage page;
  look_until(what, [&] {
    page = metrics();
    return wanted(page);
  });
  return page;
}

MetricsPage WeirUnderTest::metrics_after(std::size_t requests) const {
  log_lines(requests);
  return metrics();
}

std::vector<boost::json::object> WeirUnderTest::log_lines(std::size_t n) const {
  std::vector<boost::json::object> lines;
  look_until(std::to_string(n) + " lines in the request log", [&] {
    lines.clear();
    std::istringstream log(log_text());
    for (std::string line; std::getline(log, line) && !log.eof();)
      lines.push_back(boost::json::parse(line).as_object());
    return lines.size() >= n;
  });
  lines.resize(n);
  return lines;
}

void WeirUnderTest::expect_last_words() const {
  std::size_t all = 0, well = 0;
  std::istringstream log(log_text());
  for (std::string text; std::getline(log, text);) {
    const auto line = boost::json::parse(text).as_object();
    if (const auto dropped = member(line, "drop_reason"); dropped != "null" && dropped != "absent") continue;
    ++all;
    well += member(line, "outcome") == "ok" || member(line, "outcome") == "ok_empty";
  }
  const auto words = "; " + std::to_string(all) + " requests, " + std::to_string(well) + " of them answered well";
  if (output().find(words) == std::string::npos)
    ADD_FAILURE() << "the log says '" << words << "', and weir said:\n" << output();
}

std::string member(const boost::json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr) return "absent";
  return value->is_string() ? std::string(value->get_string()) : boost::json::serialize(*value);
}

void expect_idle(const MetricsPage& page) {
  for (const auto gauge : ledger_gauges) EXPECT_EQ(page.sum(gauge), 0) << gauge << " at idle";
}

Finished serve_with(std::string_view text) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "weir.toml";
  write_file(file, text);
  return run({weir_program(), "serve", "--config", file.string()});
}

}  // namespace weir::integration
