#include "tests/integration/peers/scripted_replica.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace weir::integration {
namespace {

/// Every page by which weir finds out what an engine is, and its load.
bool is_page(std::string_view target) {
  static constexpr std::string_view pages[] = {"/v1/models",       "/metrics",     "/version",        "/server_info",
                                               "/get_server_info", "/model_info",  "/get_model_info", "/info",
                                               "/props",           "/api/version", "/api/tags"};
  return std::ranges::any_of(pages, [target](std::string_view page) { return target.ends_with(page); });
}

}  // namespace

void Exchange::send_bytewise(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) socket_.send(bytes.substr(i, 1));
}

void Exchange::send_until_taken(std::string_view bytes, Progress& sent, Event& stalled) {
  while (!bytes.empty()) {
    const auto n = socket_.send_some(bytes, std::chrono::milliseconds(500));
    if (n == 0) stalled.set();
    sent.add(n);
    bytes.remove_prefix(n);
  }
}

ScriptedReplica::ScriptedReplica(Handler handler, ModelsQuestion models, std::uint16_t port, unsigned machine)
    : handler_(std::move(handler)),
      models_(models),
      called_off_(::eventfd(0, EFD_CLOEXEC)),
      listener_(Socket::listen(called_off_, port, machine)),
      port_(listener_.port()),
      acceptor_([this] { accept_all(); }) {}

ScriptedReplica::~ScriptedReplica() {
  ::eventfd_write(called_off_, 1);
  acceptor_.join();
  for (auto& one : serving_) one.thread.join();
  ::close(called_off_);
}

void ScriptedReplica::has_page(const std::string& path, std::string answer) {
  const std::lock_guard lock(mutex_);
  pages_[path] = std::move(answer);
}

std::size_t ScriptedReplica::asked_for(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = pages_asked_.find(path);
  return found == pages_asked_.end() ? 0 : found->second;
}

void ScriptedReplica::answer_page(Socket& socket, const std::string& path) {
  std::this_thread::sleep_for(page_delay_.load());
  std::string bytes = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
  {
    const std::lock_guard lock(mutex_);
    ++pages_asked_[path];
    if (const auto found = pages_.find(path); found != pages_.end()) bytes = found->second;
  }
  socket.send(bytes);
}

std::vector<ReceivedRequest> ScriptedReplica::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

ReceivedRequest ScriptedReplica::only_request() const {
  const auto all = requests();
  EXPECT_EQ(all.size(), 1u) << "requests at the replica";
  return all.empty() ? ReceivedRequest{} : all.front();
}

void ScriptedReplica::accept_all() {
  try {
    for (;;) {
      auto socket = listener_.accept();
      if (to_reset_ > 0) {
        --to_reset_;
        socket.reset();
        continue;
      }
      serving_.remove_if([](Serving& one) {
        const bool done = one.done;
        if (done) one.thread.join();
        return done;
      });
      auto& one = serving_.emplace_back();
      one.thread = std::thread([this, &one, peer = std::move(socket)]() mutable {
        serve(std::move(peer));
        one.done = true;
      });
    }
  } catch (const CalledOff&) {
  } catch (const std::exception& error) {
    ADD_FAILURE() << "scripted replica: " << error.what();
  }
}

std::optional<ReceivedRequest> ScriptedReplica::receive(MessageReader& reader, Socket& socket) {
  auto head = reader.head();
  if (!head) return std::nullopt;
  ReceivedRequest request;
  const auto& line = head->start_line;
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == last) throw NotHttp("not a request line: '" + line + "'");
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, last - first - 1);
  request.version = line.substr(last + 1);
  if (at_head_ && head->field("user-agent") != "weir") {
    auto only_head = request;
    only_head.head = *head;
    Exchange exchange(socket, std::move(only_head));
    at_head_(exchange);
    if (!socket.is_open()) return std::nullopt;
  }
  reader.body_by_fields(*head, false);
  while (reader.more(request.body)) {
  }
  if (reader.end() != BodyEnd::whole) throw PeerGone("the request's body was cut");
  request.head = std::move(*head);
  return request;
}

void ScriptedReplica::serve(Socket socket) {
  try {
    MessageReader reader(socket);
    std::size_t connection = 0;
    for (std::size_t i = 1; socket.is_open(); ++i) {
      auto request = receive(reader, socket);
      if (!request) return;
      const bool of_weir = request->head.field("user-agent") == "weir";
      const bool models = of_weir && request->target.ends_with("/v1/models");
      if (of_weir && request->target.ends_with("/health")) {
        socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        return probes_.add(1);
      }
      const bool models_to_handler = models && models_ == ModelsQuestion::to_handler;
      if (of_weir && is_page(request->target) && !models_to_handler) return answer_page(socket, request->target);
      request->on_connection = i;
      {
        const std::lock_guard lock(mutex_);
        if (i == 1) {
          connections_.add(1);
          connection = connections_.value();
        }
        request->connection = connection;
        request->number = requests_.size() + 1;
        requests_.push_back(*request);
      }
      received_.add(1);
      Exchange exchange(socket, std::move(*request));
      handler_(exchange);
    }
  } catch (const CalledOff&) {
  } catch (const PeerGone&) {
  } catch (const std::exception& error) {
    ADD_FAILURE() << "scripted replica: " << error.what();
  }
}

}  // namespace weir::integration
