#include "proxy/commands/client.hpp"

#include <simdjson.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/this_coro.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "config/address.hpp"
#include "config/controls.hpp"
#include "config/values.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::commands {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds patience{30};
constexpr std::size_t longest_answer = 8 * 1024 * 1024;

config::ListenAddress address_in(const std::string& text) {
  std::string_view address = text;
  if (address.starts_with("http://")) address.remove_prefix(7);
  while (address.ends_with('/')) address.remove_suffix(1);
  auto parsed = config::parse_address(address);
  if (const auto* found = std::get_if<config::ListenAddress>(&parsed)) return *found;
  throw std::runtime_error("\"" + text +
                           "\" is no address of a weir: write it as \"127.0.0.1:9091\", or as \"unix:\" and a path");
}

std::string token_in(const std::string& file) {
  std::ifstream in(file);
  std::string token;
  if (!in || !std::getline(in, token))
    throw std::runtime_error("--token-file \"" + file + "\": cannot read a line; name the file that holds the token");
  while (token.ends_with('\r') || token.ends_with(' ')) token.pop_back();
  if (token.empty()) throw std::runtime_error("--token-file \"" + file + "\": its first line is empty");
  return token;
}

net::Address address_of(const config::ListenAddress& address) {
  if (!address.unix_path.empty()) return net::Address::at_path(address.unix_path);
  return {asio::ip::make_address(address.host), address.port};
}

/// Returns why there is no answer; "" if there is one. The arguments outlive the coroutine.
net::Awaitable<std::string> ask(fleet::ReplicaStream& stream, const std::string& request, fleet::AnswerReader& reader) {
  const int error = co_await stream.connect();
  if (error != 0) co_return net::connect_error_text(error);
  const bool sent = co_await stream.write(request);
  if (!sent) co_return stream.error_text();
  const auto end = co_await fleet::read_answer(stream, reader);
  co_return end ? end->why : stream.error_text();
}

}  // namespace

Admin admin_at(const AdminOptions& options) {
  Admin admin{address_in(options.address)};
  if (!options.token_file.empty()) {
    admin.token = token_in(options.token_file);
  } else if (const char* const token = std::getenv("WEIR_ADMIN_TOKEN")) {
    admin.token = token;
  }
  return admin;
}

net::Awaitable<AdminReply> answer_of(const Admin& admin, std::string method, std::string path, std::string body,
                                     std::chrono::steady_clock::duration limit) {
  const auto& where = admin.address;
  config::ReplicaUrl url;
  url.authority = where.unix_path.empty() ? config::to_text(where) : "localhost";
  const fleet::Question question{
      .method = method, .path = path, .body = body, .credential = fleet::bearer(admin.token)};
  const auto request = fleet::bytes_of(url, question);
  fleet::PageAnswer page;
  fleet::PageReader reader(page, longest_answer);
  const auto executor = co_await asio::this_coro::executor;
  fleet::ReplicaStream stream(executor, address_of(where), limit);
  auto why_none = co_await ask(stream, request, reader);
  if (why_none.empty()) co_return AdminReply{{page.status, std::move(page.body)}};
  if (stream.timed_out())
    why_none = "it took longer than " + config::format_number(std::chrono::duration<double>(limit).count()) + " s";
  co_return AdminReply{{},
                       "no weir answers at " + config::to_text(where) + ": " + why_none +
                           "; --admin names the address of its [admin] listener"};
}

Answered ask_admin(const Admin& admin, const std::string& method, const std::string& path, const std::string& body) {
  asio::io_context context{1};
  auto asked = fleet::wait_for(context, answer_of(admin, method, path, body, patience));
  if (!asked.why_none.empty()) throw NoWeir(asked.why_none);
  return std::move(asked.answered);
}

std::string error_message(const Answered& answered) {
  simdjson::dom::parser parser;
  std::string_view message;
  const auto told = parser.parse(answered.body);
  // Whatever answers at that address, it does not steer the terminal.
  if (told["error"]["message"].get(message) == simdjson::SUCCESS)
    return config::printable(message, config::LineFeeds::kept);
  return "weir answered with status " + std::to_string(answered.status);
}

std::string body_of(const Answered& answered) {
  if (answered.status != 200) throw std::runtime_error(error_message(answered));
  return answered.body;
}

int run_command(const std::string& name, const std::function<int()>& command) {
  try {
    const int status = command();
    // A reader that reads no further, as `head` does, has all that it wants.
    if (std::fflush(stdout) != 0 && errno != EPIPE)
      throw std::runtime_error("cannot write to standard output: " + std::string(std::strerror(errno)));
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weir %s: %s\n", name.c_str(), error.what());
    return 1;
  }
}

}  // namespace weir::proxy::commands
