#include "proxy/http/routes.hpp"
#include "tests/draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <string>

namespace weir::proxy::http {
namespace {

using Paths = std::vector<std::string>;

TEST(Routes, AreDocumented) {
  std::ifstream file(WEIR_TEST_DATA "/../../docs/reference/settings.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  const auto begin = docs.find("## Paths");
  ASSERT_NE(begin, std::string::npos);
  const auto section = docs.substr(begin, docs.find("\n## ", begin) - begin);
  const std::regex path("`(/[^`]*)`");
  std::size_t paths = 0;
  for (std::sregex_iterator hit(section.begin(), section.end(), path), end; hit != end; ++hit, ++paths) {
    const std::string one = (*hit)[1];
    EXPECT_EQ(route_of("POST", one == "/" || one.back() != '/' ? one : one + "x", {}), Route::inference) << one;
  }
  EXPECT_EQ(paths, 38u) << "a route that is new is to be documented";
}

TEST(Routes, ServeWhatAnEngineKeepsUnderAnId) {
  struct Case {
    const char* methods;
    const char* path;
    const char* id;
  };
  const Case cases[] = {{"GET HEAD DELETE OPTIONS", "/v1/responses/resp_1-a", "resp_1-a"},
                        {"POST OPTIONS", "/v1/responses/resp_1/cancel", "resp_1"},
                        {"GET HEAD OPTIONS", "/v1/responses/resp_1/input_items", "resp_1"},
                        {"GET HEAD POST OPTIONS", "/v1/files", ""},
                        {"GET HEAD DELETE OPTIONS", "/v1/files/file-1", "file-1"},
                        {"GET HEAD OPTIONS", "/v1/files/file-1/content", "file-1"},
                        {"GET HEAD POST OPTIONS", "/v1/batches", ""},
                        {"GET HEAD OPTIONS", "/v1/batches/batch_1", "batch_1"},
                        {"POST OPTIONS", "/v1/batches/batch_1/cancel", "batch_1"},
                        {"", "/v1/responses/", ""},
                        {"", "/v1/responses//cancel", ""},
                        {"", "/v1/responses/a.b", ""},
                        {"", "/v1/responses/a%2fb", ""},
                        {"", "/v1/responses/a/b/cancel", ""},
                        {"", "/v1/responses/a/content", ""},
                        {"", "/v1/responsesa", ""},
                        {"", "/v1/filesa", ""},
                        {"", "/v1/files/", ""},
                        {"", "/files/file-1", ""}};
  for (const auto& [methods, path, id] : cases) {
    for (const std::string method : {"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "", "GET HEAD", "OPTION"}) {
      const bool is_one = !method.empty() && method.find(' ') == std::string::npos;
      const bool takes = is_one && (" " + std::string(methods) + " ").find(" " + method + " ") != std::string::npos;
      const auto kept = kept_path(method, path);
      ASSERT_EQ(kept.has_value(), takes) << method << ' ' << path;
      EXPECT_EQ(route_of(method, path, {}), takes ? Route::open : Route::unknown) << method << ' ' << path;
      if (!takes) continue;
      EXPECT_EQ(kept->id, id);
      EXPECT_EQ(kept->makes, method == "POST" && kept->id.empty()) << path;
      EXPECT_EQ(route_of(method, path, {"/v1/completions"}), Route::unknown);
    }
  }
  EXPECT_EQ(route_of("POST", "/v1/responses", {}), Route::inference);
}

TEST(Routes, ServeInferenceAndNothingElseByDefault) {
  for (const auto* path : {"/v1/chat/completions",
                           "/chat/completions",
                           "/v1/completions",
                           "/completions",
                           "/completion",
                           "/v1/responses",
                           "/responses",
                           "/v1/messages",
                           "/",
                           "/generate",
                           "/generate_stream",
                           "/api/chat",
                           "/api/generate",
                           "/api/extra/generate/stream",
                           "/api/v1/generate",
                           "/api/latest/generate",
                           "/v1/embeddings",
                           "/embeddings",
                           "/embed",
                           "/v1/rerank",
                           "/v2/rerank",
                           "/rerank",
                           "/v1/score",
                           "/score",
                           "/tokenize",
                           "/v1/tokenize",
                           "/detokenize",
                           "/v1/messages/count_tokens",
                           "/apply-template",
                           "/infill",
                           "/pooling",
                           "/classify",
                           "/v1/chat/completions/batch",
                           "/api/extra/tokencount",
                           "/v1/audio/transcriptions",
                           "/v1/audio/speech",
                           "/v1/images/generations",
                           "/v1/images/edits",
                           "/v1/images/a_b/c-d",
                           "/v1/moderations",
                           "/v1/reranking"}) {
    EXPECT_EQ(route_of("POST", path, {}), Route::inference) << path;
    EXPECT_EQ(route_of("POST", path, {"default"}), Route::inference) << path;
    EXPECT_TRUE(means_one_route(path)) << "known paths are not looked at: " << path;
    // Only POST asks for inference; a preflight is a browser's question before it.
    EXPECT_EQ(route_of("OPTIONS", path, {}), Route::open) << path;
    for (const auto* method : {"GET", "HEAD", "PUT", "DELETE", "post"})
      EXPECT_EQ(route_of(method, path, {}), path == std::string_view("/") ? Route::unknown : Route::open)
          << method << ' ' << path;
  }
  // Engines serve these on the same port, or they only look like routes.
  EXPECT_EQ(route_of("GET", "/", {}), Route::unknown);
  for (const auto* path : {"/metrics",
                           "/flush_cache",
                           "/update_weights_from_disk",
                           "/v1/load_lora_adapter",
                           "/sleep",
                           "/wake_up",
                           "/reset_prefix_cache",
                           "/start_profile",
                           "/slots",
                           "/props",
                           "/api/pull",
                           "/api/extra/abort",
                           "/api/extra/generate/check",
                           "/api/v1/models",
                           "/docs",
                           "/openapi.json",
                           "//v1/chat/completions",
                           "/v1//chat/completions",
                           "/v1/chat/completions/",
                           "/v1/chat/completions/../../metrics",
                           "/V1/chat/completions",
                           "/v1/chat%2fcompletions",
                           "/generate;x",
                           "generate",
                           "/v1/audio",
                           "/v1/audio/",
                           "/v1/audio//speech",
                           "/v1/audio/speech/",
                           "/v1/audio/../../flush_cache",
                           "/v1/audio/..",
                           "/v1/images/%2e%2e/%2e%2e/flush_cache",
                           "/v1/images/a;b",
                           "/v1/images/a\\b",
                           "/v1/videos/generations",
                           "/v1/messages/count_tokens/x",
                           ""})
    for (const auto* method : {"POST", "OPTIONS"})
      EXPECT_EQ(route_of(method, path, {}), Route::unknown) << method << ' ' << path;
}

TEST(Routes, PassQuestionsBeforeTheFirstRequestOnAndNothingThatChangesAnEngine) {
  for (const auto* path :
       {"/api/v1/model", "/api/v1/info/version", "/api/v1/config/max_context_length", "/api/v1/config/max_length",
        "/api/extra/version", "/api/extra/true_max_context_length", "/api/tags"}) {
    for (const auto* method : {"GET", "HEAD", "OPTIONS"}) {
      EXPECT_EQ(route_of(method, path, {}), Route::open) << method << ' ' << path;
      EXPECT_EQ(route_of(method, path, {"/my/route"}), Route::unknown) << method << ' ' << path;
    }
    for (const auto* method : {"POST", "PUT", "DELETE", "PATCH"})
      EXPECT_EQ(route_of(method, path, {}), Route::unknown) << method << ' ' << path;
  }
}

TEST(Routes, OfAPathWithSpareSlashesAreThoseOfThePathWithoutThem) {
  const struct {
    std::string path, plain;
  } rows[]{{"/v1//models", "/v1/models"},
           {"/v1/models/", "/v1/models"},
           {"//v1///models//", "/v1/models"},
           {"/models/", "/models"},
           {"/health/", "/health"},
           {"/v1//chat/completions", "/v1/chat/completions"},
           {"/v1/chat/completions/", "/v1/chat/completions"},
           {"/v1/audio//transcriptions/", "/v1/audio/transcriptions"},
           {"/api/tags/", "/api/tags"}};
  for (const auto& row : rows) {
    EXPECT_EQ(without_spare_slashes("GET", row.path, {}), row.plain) << row.path;
    EXPECT_EQ(without_spare_slashes("GET", row.path, {"*"}), row.plain) << row.path;
    EXPECT_EQ(without_spare_slashes("GET", row.path, {row.path}), std::nullopt) << "the settings mean it";
    EXPECT_EQ(without_spare_slashes("GET", row.plain, {}), std::nullopt) << row.plain;
  }
  for (const auto* path : {"", "*", "/", "//", "///", "/flush_cache/", "/v1//load_lora_adapter", "/v1/models//m",
                           "/v1/models/m/", "/v1//models/m", "/v1/audio//", "/v1/./models/", "/v1%2F/models",
                           "/v1/chat//completions/../../flush_cache", "/metrics//"})
    for (const auto* method : {"GET", "POST"}) EXPECT_EQ(without_spare_slashes(method, path, {}), std::nullopt) << path;
  EXPECT_EQ(without_spare_slashes("PUT", "/api/v1/model/", {"*"}), std::nullopt);
}

TEST(Routes, AnswerHealthAndModelsThemselves) {
  for (const auto* method : {"GET", "HEAD"})
    for (const Paths& paths : {Paths{}, Paths{"*"}, Paths{"/health", "/v1/models"}, Paths{"/my/route"}}) {
      EXPECT_EQ(route_of(method, "/health", paths), Route::health);
      EXPECT_EQ(route_of(method, "/v1/models", paths), Route::models);
      EXPECT_EQ(route_of(method, "/models", paths), Route::models);
      EXPECT_EQ(route_of(method, "/v1/models/m", paths), Route::model);
      EXPECT_EQ(route_of(method, "/v1/models/org/m", paths), Route::model);
    }
  for (const auto* path : {"/health", "/v1/models", "/models", "/v1/models/org/m"}) {
    for (const auto* method : {"POST", "DELETE", "get"}) {
      EXPECT_EQ(route_of(method, path, {}), Route::unknown) << method << ' ' << path;
      EXPECT_EQ(route_of(method, path, {"*"}), Route::open) << method << ' ' << path;
    }
    EXPECT_EQ(route_of("OPTIONS", path, {}), Route::open) << "only a replica knows whom it lets in: " << path;
    EXPECT_EQ(route_of("OPTIONS", path, {"/my/route"}), Route::open);
  }
  EXPECT_EQ(route_of("OPTIONS", "/v1/models/../../flush_cache", {}), Route::unknown);
  for (const auto* path : {"/v1/models/", "/v1/modelsx", "/v1/models/%", "/v1/models/%4", "/v1/models/%zz"})
    EXPECT_EQ(route_of("GET", path, {}), Route::unknown) << path;
}

TEST(Routes, AnswerOptionsOfTheServerAsAWholeThemselves) {
  for (const auto& paths : {std::vector<std::string>{}, {"*"}, {"/v1/completions"}}) {
    EXPECT_EQ(route_of("OPTIONS", "*", paths), Route::server);
  }
  EXPECT_TRUE(is_own(Route::server));
}

TEST(Routes, AModelsIdIsDecodedAndMayHoldSlashes) {
  EXPECT_EQ(model_id_in("/v1/models/m"), "m");
  EXPECT_EQ(model_id_in("/v1/models/org/m"), "org/m");
  EXPECT_EQ(model_id_in("/v1/models/org%2Fm%2f7B"), "org/m/7B");
  EXPECT_EQ(model_id_in("/v1/models/a%20b%25c+d"), "a b%c+d");
  EXPECT_EQ(model_id_in("/v1/models/a%"), std::nullopt);
  EXPECT_EQ(model_id_in("/v1/models/a%2"), std::nullopt);
  EXPECT_EQ(model_id_in("/v1/models/a%+2"), std::nullopt);
  EXPECT_EQ(model_id_in("/v1/models/a%2g"), std::nullopt);
  EXPECT_EQ(model_id_in("/v1/models/"), std::nullopt);
  EXPECT_EQ(model_id_in("/v1/models"), std::nullopt);
  EXPECT_EQ(model_id_in("/v2/models/m"), std::nullopt);
}

TEST(Routes, ForwardNoPathThatMayMeanTwoThings) {
  for (const auto* rest : {"%2e%2e/%2e%2e/flush_cache",
                           "..%2f..%2fflush_cache",
                           "%2E./x",
                           "a/../b",
                           ".",
                           "a/..",
                           "%2f",
                           "a%5c..%5cb",
                           "a\\b",
                           "a%00",
                           "%252e%252e",
                           "a%25",
                           "%61",
                           "a%7e",
                           "%7f",
                           "..;/..;/flush_cache",
                           "a;b",
                           "a%3bb",
                           "%0a",
                           "a%",
                           "a%4",
                           "a%zz",
                           "a%3fb",
                           "a%23"}) {
    const auto path = "/v1/models/" + std::string(rest);
    EXPECT_EQ(route_of("OPTIONS", path, {}), Route::unknown) << path;
    for (const auto* method : {"POST", "OPTIONS", "PUT"})
      EXPECT_EQ(route_of(method, "/x/" + std::string(rest), {"*"}), Route::unknown) << method << path;
    EXPECT_EQ(route_of("POST", path, {path}), Route::open) << "the settings name it";
  }
  for (const auto* rest : {"m", "org/m", "m%20b", "%C3%A9", "a+b:c@d", "..a", "a...", "m%3Alatest"}) {
    const auto path = "/v1/models/" + std::string(rest);
    EXPECT_EQ(route_of("OPTIONS", path, {}), Route::open) << path;
    EXPECT_EQ(route_of("POST", path, {"*"}), Route::open) << path;
  }
}

TEST(Routes, LetAPageAskAboutAModelHoweverTheSlashesOfItsIdAreWritten) {
  for (const auto* rest : {"org%2Fm", "org%2fm%2F7B", "org/m%2F7B", "a%20b%2Fm", "..a%2Fm..."}) {
    const auto path = "/v1/models/" + std::string(rest);
    EXPECT_EQ(route_of("GET", path, {}), Route::model) << path;
    EXPECT_EQ(route_of("OPTIONS", path, {}), Route::open) << path;
    EXPECT_EQ(route_of("POST", path, {"*"}), Route::unknown) << "no id is meant: " << path;
  }
  for (const auto* rest : {"%2F", "%2Fm", "m%2F", "a%2F/b", "a/%2Fb", "a%2F%2Fb", "%2F..%2Fm", "a%2F..", "a%2F.%2Fb",
                           "a%252Fb", "%2%2F", "a%5C%2F", "a%2Fb%3Fc"})
    EXPECT_EQ(route_of("OPTIONS", "/v1/models/" + std::string(rest), {}), Route::unknown) << rest;
}

/// Returns a path as a lenient server behind weir may take it.
std::string taken_for(std::string path, int decodings) {
  for (; decodings > 0; --decodings) {
    std::string decoded;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const auto digit = [&](std::size_t at) {
        return at < path.size() && std::isxdigit(static_cast<unsigned char>(path[at])) != 0;
      };
      const bool escape = path[i] == '%' && digit(i + 1) && digit(i + 2);
      decoded += escape ? static_cast<char>(std::stoi(path.substr(i + 1, 2), nullptr, 16)) : path[i];
      if (escape) i += 2;
    }
    path = decoded;
  }
  path = path.substr(0, path.find_first_of(std::string("\0?#", 3)));
  std::vector<std::string> names;
  std::string name;
  for (const char c : path + "/") {
    if (c != '/' && c != '\\') {
      name += c;
      continue;
    }
    name = name.substr(0, name.find(';'));
    if (name == ".." && names.size() > 1) {
      names.pop_back();
    } else if (name != "." && name != "..") {
      names.push_back(name);
    }
    name.clear();
  }
  std::string taken = names.empty() ? "" : names.front();
  for (std::size_t i = 1; i < names.size(); ++i) taken += "/" + names[i];
  return taken;
}

std::ptrdiff_t escaped_slashes(const std::string& path) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = 0; (at = path.find("%2f", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(Routes, MeanTheSameToEveryServerHoweverAPathIsEscaped) {
  const std::vector<std::string> pieces{"/",    "v1",   "models", "chat",        "completions", "..",       ".",
                                        "%2f",  "m",    "%2e",    "%5c",         "\\",          "%252e",    "%252f",
                                        ";",    "%00",  "%63hat", "%",           "%20",         "generate", "%c3%a9",
                                        "/../", "/v1/", "%3b",    "/v1/models/", "flush_cache"};
  std::mt19937 random(1);
  std::size_t forwarded = 0;
  const unsigned paths_tried = tests::draws(20'000, 200'000);
  for (unsigned i = 0; i < paths_tried; ++i) {
    std::string path = "/v1/models/";
    if (i % 2 != 0) path = "/";
    for (auto n = random() % 5; n > 0; --n) path += pieces[random() % pieces.size()];
    const auto is_inference = [](const std::string& one) { return route_of("POST", one, {}) == Route::inference; };
    for (const Paths& paths : {Paths{}, Paths{"*"}}) {
      if (route_of("OPTIONS", path, paths) != Route::open) continue;
      ++forwarded;
      for (const int decodings : {0, 1, 2, 3}) {
        const auto taken = taken_for(path, decodings);
        // A model's id may hold escaped slashes, and some servers decode them.
        const auto written = std::ranges::count(path, '/'), seen = std::ranges::count(taken, '/');
        EXPECT_EQ(seen, written + (decodings > 0 ? escaped_slashes(path) : 0)) << path;
        EXPECT_EQ(is_inference(taken), is_inference(path)) << path;
        EXPECT_EQ(taken.starts_with("/v1/models/"), path.starts_with("/v1/models/")) << path;
      }
    }
  }
  EXPECT_GT(forwarded, paths_tried / 100);
}

TEST(Routes, FollowTheSettings) {
  const Paths some{"/generate", "/metrics"};
  EXPECT_EQ(route_of("POST", "/generate", some), Route::inference);
  EXPECT_EQ(route_of("GET", "/metrics", some), Route::open);
  EXPECT_EQ(route_of("POST", "/v1/completions", some), Route::unknown) << "exactly these";
  EXPECT_EQ(route_of("GET", "/metrics/x", some), Route::unknown);
  EXPECT_EQ(route_of("POST", "/v1/completions", {"*"}), Route::inference);
  EXPECT_EQ(route_of("GET", "/anything", {"*"}), Route::open);

  const Paths added{"default", "/my/route"};
  EXPECT_EQ(route_of("POST", "/my/route", added), Route::open);
  EXPECT_EQ(route_of("OPTIONS", "/my/route", added), Route::open);
  EXPECT_EQ(route_of("POST", "/v1/completions", added), Route::inference);
  EXPECT_EQ(route_of("POST", "/flush_cache", added), Route::unknown);
  EXPECT_EQ(route_of("POST", "/default", added), Route::unknown);
}

}  // namespace
}  // namespace weir::proxy::http
