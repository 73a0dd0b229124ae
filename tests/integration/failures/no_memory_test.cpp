// The system gives weir no more memory while clients send long requests. Each of them is told, counted and logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

std::size_t address_space(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string word; file >> word;) {
    std::size_t kilobytes = 0;
    if (word == "VmSize:" && file >> kilobytes) return kilobytes * 1024;
  }
  throw std::runtime_error("cannot tell the address space of process " + std::to_string(process));
}

// A sanitizer needs an address space without a limit: scripts/test leaves out what begins so.
TEST(StreamMemory, ThatTheSystemDoesNotGiveIsRefusedCountedAndLogged) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", vllm_whole_chat(2))); });
  auto settings = pool_of({&replica});
  settings.server["threads"] = "1";
  WeirUnderTest weir(settings);
  EXPECT_EQ(fetch(weir.port(), post(chat, whole_chat_body())).status, 200u);
  rlimit before{};
  const auto id = weir.process().id();
  const rlimit little{address_space(id) + (std::size_t{2} << 20), RLIM_INFINITY};
  ASSERT_EQ(::prlimit(id, RLIMIT_AS, &little, &before), 0);
  constexpr std::size_t clients = 8;
  const auto request = post(chat, whole_chat_body(std::string(std::size_t{15} << 20, 'x')));
  std::vector<unsigned> told(clients);
  std::vector<std::thread> threads;
  for (auto& status : told) {
    threads.emplace_back([&status, &request, port = weir.port()] {
      try {
        status = fetch(port, request).status;
      } catch (const std::exception&) {
        status = 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(::prlimit(id, RLIMIT_AS, &before, nullptr), 0);
  for (const auto status : told) EXPECT_TRUE(status == 503 || status == 200) << status << " (0: no answer)";
  EXPECT_GT(std::ranges::count(told, 503u), 0) << "nobody lacked memory, and nothing was tested";
  weir.wait_until_said("internal error (session): std::bad_alloc");
  EXPECT_EQ(fetch(weir.port(), post(chat, whole_chat_body())).status, 200u) << "it goes on";
  const auto page = weir.metrics_after(clients + 2);
  EXPECT_EQ(page.sum("weir_requests_total"), clients + 2);
  EXPECT_GT(page.sum("weir_internal_errors_total", {{"part", "session"}}), 0);
  expect_idle(page);
}

}  // namespace
}  // namespace weir::integration
