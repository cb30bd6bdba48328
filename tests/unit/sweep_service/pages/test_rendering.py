from sweep_service.pages import rendering
from sweep_service.pages.rendering import static_file


def test_names_that_strangers_make_up_are_not_kept() -> None:
    assert static_file("page.css") is not None
    size = rendering._content.cache_info().currsize
    for name in ("x", "../page.css", "page.css/", "", *(f"{number}.css" for number in range(1000))):
        assert static_file(name) is None
    assert rendering._content.cache_info().currsize == size
